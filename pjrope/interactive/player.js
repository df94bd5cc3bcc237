// Gives each piano roll of a figure a button that sounds its notes. `config` is defined above this
// text by player.py: id, grid (seconds a step), pad, and tunes {label, notes: [start, length, pitch, velocity]}.
const figure = document.getElementById(config.id);
if (!figure) return;
const SVG = "http://www.w3.org/2000/svg";
const AHEAD = 0.15; // seconds before the first note: a context needs a moment to start
const LEVEL = 0.16; // of a single loud note; chords add up, and a compressor holds them down

// One player sounds at a time on a page, whichever figure it belongs to.
const page = (window.pjPlayer ||= { context: null, stop: null });

const frequency = (pitch) => 440 * Math.pow(2, (pitch - 69) / 12);

// A struck string, roughly: two partials that start at once and fade, cut short when the key is let go.
const strike = (context, out, at, seconds, pitch, velocity) => {
  const gain = context.createGain();
  const loud = LEVEL * Math.pow(Math.max(velocity, 1) / 127, 1.5);
  const end = at + seconds;
  gain.gain.setValueAtTime(0.0001, at);
  gain.gain.exponentialRampToValueAtTime(loud, at + 0.008);
  gain.gain.exponentialRampToValueAtTime(loud * Math.exp(-1.5 * seconds) + 0.0001, Math.max(end, at + 0.02));
  gain.gain.exponentialRampToValueAtTime(0.0001, end + 0.12);
  gain.connect(out);
  return [["triangle", 1], ["sine", 2]].map(([type, partial]) => {
    const tone = context.createOscillator();
    tone.type = type;
    tone.frequency.value = frequency(pitch) * partial;
    tone.connect(gain);
    tone.start(at);
    tone.stop(end + 0.15);
    return tone;
  });
};

const give = (tune, holder) => {
  const roll = holder.querySelector("svg");
  const head = holder.querySelector(".pj-tune-head");
  const last = Math.max(...tune.notes.map(([start, length]) => start + length)) * config.grid;
  const width = roll.viewBox.baseVal.width - 2 * config.pad;
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({
    class: "pj-now", y1: 0, y2: roll.viewBox.baseVal.height, stroke: "currentColor", "stroke-width": 2,
    visibility: "hidden",
  })) line.setAttribute(name, value);
  roll.append(line);

  const button = document.createElement("button");
  button.type = "button";
  button.style.cssText = "font:inherit;min-height:44px;min-width:6rem;margin:.25rem 0;padding:0 1rem;"
    + "border:1px solid currentColor;border-radius:.4rem;background:transparent;color:inherit;cursor:pointer";
  head.replaceChildren(button);
  const say = (playing) => {
    button.textContent = (playing ? "■ Stop: " : "▶ Play: ") + tune.label;
  };
  say(false);

  const play = async () => {
    const Context = window.AudioContext || window.webkitAudioContext;
    if (!Context) {
      button.textContent = "This browser has no sound: " + tune.label;
      button.disabled = true;
      return;
    }
    const context = (page.context ||= new Context());
    await context.resume();
    const out = context.createDynamicsCompressor();
    out.connect(context.destination);
    const begun = context.currentTime + AHEAD;
    const tones = tune.notes.flatMap(([start, length, pitch, velocity]) =>
      strike(context, out, begun + start * config.grid, length * config.grid, pitch, velocity));
    let frame = 0;
    const stop = () => {
      cancelAnimationFrame(frame);
      tones.forEach((tone) => tone.disconnect());
      out.disconnect();
      line.setAttribute("visibility", "hidden");
      say(false);
      if (page.stop === stop) page.stop = null;
    };
    const follow = () => {
      const now = context.currentTime - begun;
      if (now > last + 0.2) return stop();
      const x = config.pad + (Math.max(now, 0) / last) * width;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      frame = requestAnimationFrame(follow);
    };
    page.stop = stop;
    line.setAttribute("visibility", "visible");
    say(true);
    follow();
    return stop;
  };

  let own = null;
  button.addEventListener("click", async () => {
    const mine = own !== null && page.stop === own;
    if (page.stop) page.stop();
    own = mine ? null : await play();
  });
};

figure.querySelectorAll(".pj-tune").forEach((holder, i) => give(config.tunes[i], holder));

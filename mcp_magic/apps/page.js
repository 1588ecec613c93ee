// The page of one view in a browser tab: the host of a notebook's views, over POST and server-sent events.
import { show } from "./host.js";

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

function listen(onMessage, onClose) {
  const events = new EventSource("events");
  events.onmessage = ({ data }) => {
    const { message, buffers } = JSON.parse(data);
    onMessage(message, buffers.map(bytes));
  };
  // The browser tries again by itself while the kernel is only busy; a port without a kernel refuses at once.
  let failures = 0;
  events.onopen = () => { failures = 0; };
  events.onerror = () => { if (++failures === 3) { events.close(); onClose(); } };
  return () => events.close();
}

let sent = Promise.resolve(); // so that messages arrive in order
function send(message) {
  const body = JSON.stringify(message);
  sent = sent.then(() => fetch("messages", { method: "POST", body })).catch(() => {});
}

show(document.getElementById("view"), { send, listen });

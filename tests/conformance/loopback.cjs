// Preloaded into the suite. Its servers listen on all interfaces and there is no option against it: here a server
// that names no interface gets 127.0.0.1. `_listen2` is where Node binds, at once, as the suite expects.
"use strict";
const net = require("node:net");

const bind = net.Server.prototype._listen2;
const listen = net.Server.prototype.listen;

net.Server.prototype._listen2 = function (address, port, addressType, backlog, fd, ...rest) {
  const anywhere = !address && typeof fd !== "number";
  return bind.call(this, anywhere ? "127.0.0.1" : address, port, anywhere ? 4 : addressType, backlog, fd, ...rest);
};

// Should another Node bind elsewhere, nothing runs.
net.Server.prototype.listen = function (...args) {
  const server = listen.apply(this, args);
  this.once("listening", () => {
    const bound = this.address();
    if (bound && typeof bound === "object" && bound.address !== "127.0.0.1") {
      console.error(`listening on ${bound.address}, not on 127.0.0.1: loopback.cjs does not fit this Node`);
      process.exit(70);
    }
  });
  return server;
};

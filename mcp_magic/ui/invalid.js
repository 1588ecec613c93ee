// Mirrors the class mcp-invalid as aria-invalid.
const NAME = "mcp-invalid-marker";

class InvalidMarker extends HTMLElement {
  connectedCallback() {
    const form = this.closest(".widget-vbox");
    const mark = () => {
      for (const each of form.querySelectorAll(".mcp-invalid :is(input, select, textarea), [aria-invalid]"))
        each.ariaInvalid = each.closest(".mcp-invalid") ? "true" : null;
    };
    this.observer = new MutationObserver(mark);
    this.observer.observe(form, { subtree: true, childList: true, attributeFilter: ["class"] });
    mark();
  }

  disconnectedCallback() {
    this.observer.disconnect();
  }
}

customElements.get(NAME) ?? customElements.define(NAME, InvalidMarker);
export default { render: ({ el }) => el.append(document.createElement(NAME)) };

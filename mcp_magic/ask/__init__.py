"""Questions to you: approvals, elicitations and sampling."""

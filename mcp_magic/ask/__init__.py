"""Questions to the user: approvals, elicitations and sampling."""

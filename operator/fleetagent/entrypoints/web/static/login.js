// `kubectl fleetagent open` comes with the token behind the #, which no server and no log ever sees.
"use strict";
(() => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  const form = document.getElementById("login");
  form.elements.token.value = token;
  if (form.dataset.ask === undefined) form.submit();
  else document.getElementById("brought").hidden = false; // or any site could sign somebody in as somebody else
})();

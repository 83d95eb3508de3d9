// Exchanges the token in the fragment of the URL for a session, and removes it from the address and the history.
"use strict";
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("token").value = token;
  document.forms[0].submit();
}

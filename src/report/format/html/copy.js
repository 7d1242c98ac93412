// Adds a button to each command that copies it. Everything else works without a script.
"use strict";
{
  const said = document.createElement("p");
  said.className = "spoken";
  said.setAttribute("role", "status");
  document.querySelector("footer").append(said);

  // A page that was not loaded securely has no clipboard of its own.
  const copied = async (code) => {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    }
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  };

  for (const command of document.querySelectorAll(".command")) {
    const code = command.querySelector("code");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "copy";
    button.setAttribute("aria-label", `copy ${code.textContent}`);
    button.addEventListener("click", async () => {
      const done = await copied(code).catch(() => false);
      button.textContent = done ? "copied" : "failed";
      said.textContent = done ? "Copied." : "Could not be copied.";
      setTimeout(() => {
        button.textContent = "copy";
        said.textContent = "";
      }, 2000);
    });
    command.append(button);
  }
}

// What makes pages live. Each of these is an addition: every page works without any of them.
import "./choices.js";
import "./keyboard.js";
import "./lists.js";
import "./live.js";
import "./pictures.js";

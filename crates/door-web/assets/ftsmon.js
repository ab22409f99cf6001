// Leads from an address of FTS's monitoring, such as /fts3/ftsmon/#/job/ID, to our page of the same.
"use strict";
(() => {
  const go = () => {
    const job = location.hash.match(/^#\/job\/([0-9A-Fa-f-]{36})(?:[/?]|$)/);
    if (job) location.replace(`/queue/jobs/${job[1].toLowerCase()}`);
    else if (location.hash.length > 1) location.replace("/queue");
  };
  addEventListener("hashchange", go);
  addEventListener("load", go);
})();

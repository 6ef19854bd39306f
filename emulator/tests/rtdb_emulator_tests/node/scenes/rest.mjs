import { onValue, ref, set } from "firebase/database";
import { Record } from "../scene.mjs";

/** The values that a stream of REST sends, as they come. */
async function stream(scene, path, record) {
  const stop = new AbortController();
  scene.atEnd(() => stop.abort());
  const url = `http://${scene.host}:${scene.port}${path}.json?ns=${scene.namespace}`;
  const answer = await fetch(url, { headers: { Accept: "text/event-stream" }, signal: stop.signal });
  const read = async () => {
    let text = "";
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      const events = (text + chunk).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event);
        if (name === "put") record.add(JSON.parse(data).data);
      }
    }
  };
  read().catch((error) => error.name === "AbortError" || record.add(String(error)));
}

/** Two clients and REST write at once to one node; returns what a third client and a stream have seen of it. */
export async function oneOrder(scene, { each }) {
  const [heard, streamed] = [new Record(), new Record()];
  onValue(ref(scene.client(), "node"), (snapshot) => heard.add(snapshot.val()));
  await stream(scene, "/node", streamed);
  await Promise.all([heard.untilThereAre(1), streamed.untilThereAre(1)]);
  const numbers = Array.from({ length: each }, (_, index) => index);
  const byClient = async (name) => {
    const place = ref(scene.client(), "node");
    for (const number of numbers) await set(place, `${name} ${number}`);
  };
  const byRest = async () => {
    for (const number of numbers) await scene.rest("PUT", "/node", `rest ${number}`);
  };
  await Promise.all([byClient("one"), byClient("two"), byRest()]);
  await Promise.all([heard.untilThereAre(3 * each + 1), streamed.untilThereAre(3 * each + 1)]);
  return { heard: heard.all, streamed: streamed.all };
}

// Functions of both generations: each writes what it was told below /heard of the same database, under its own name.
const { initializeApp } = require("firebase-admin/app");
const v1 = require("firebase-functions/v1");
const { onValueCreated, onValueDeleted, onValueUpdated, onValueWritten } = require("firebase-functions/database");

initializeApp();

const instance = "demo-shop-default-rtdb";
const ref = "/orders/{order}";

const hear = (name, snapshot, { order }, about) =>
  snapshot.ref.root.child("heard").child(name).child(order).set({ ...about, at: snapshot.ref.key });

const change = ({ before, after }) => ({ before: before.val(), after: after.val() });

exports.created = onValueCreated({ ref, instance }, (event) =>
  hear("created", event.data, event.params, { now: event.data.val(), as: event.authType, in: event.instance }),
);
exports.updated = onValueUpdated({ ref, instance }, (event) =>
  hear("updated", event.data.after, event.params, change(event.data)),
);
exports.deleted = onValueDeleted({ ref, instance: "demo-*" }, (event) =>
  hear("deleted", event.data, event.params, { was: event.data.val() }),
);
exports.written = onValueWritten({ ref, instance }, (event) =>
  hear("written", event.data.after, event.params, change(event.data)),
);
exports.elsewhere = onValueWritten({ ref, instance, region: "europe-west1" }, (event) =>
  hear("elsewhere", event.data.after, event.params, {}),
);
exports.first = v1.database.instance(instance).ref(ref).onWrite((data, context) =>
  hear("first", data.after, context.params, { ...change(data), as: context.authType, type: context.eventType }),
);
exports.firstTotal = v1.database.instance(instance).ref("/orders/{order}/total").onUpdate((data, context) =>
  hear("firstTotal", data.after, context.params, change(data)),
);

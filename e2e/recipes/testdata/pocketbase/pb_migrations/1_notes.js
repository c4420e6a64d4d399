// The schema of all tenants: a collection that clients can write without a login.
migrate((app) => {
  app.save(new Collection({
    type: "base",
    name: "notes",
    listRule: "",
    viewRule: "",
    createRule: "",
    fields: [{ type: "text", name: "text", required: true }],
  }));
}, (app) => {
  app.delete(app.findCollectionByNameOrId("notes"));
});

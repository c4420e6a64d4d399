// A usual Express app with sessions in memory. It contains nothing for Shardway.
const express = require('express');
const session = require('express-session');

const app = express();
app.use(session({ secret: 'recipe', resave: false, saveUninitialized: false }));
app.post('/visit', (req, res) => {
  req.session.count = (req.session.count || 0) + 1;
  res.json({ count: req.session.count, instance: process.env.INSTANCE, cookie: req.get('cookie') || '' });
});
app.listen(Number(process.env.PORT), '127.0.0.1');

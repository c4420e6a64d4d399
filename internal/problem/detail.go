package problem

// UnheldInPart is the detail of an UpstreamBroken for a request whose app did not hold its
// shard, after more of its body had gone there than is kept. It is a constant because the
// history checkers of tests recognize the response by it.
const UnheldInPart = "the app did not hold the shard (Shardway-Acquire), and part of the body had been sent to it: send the request again, it has not run"

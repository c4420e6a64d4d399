package problem

// UnheldInPart is the detail of an UpstreamBroken for a request whose app did not hold its shard. The node could
// not retry the request, because more of its body had been sent than the node buffers. It is a constant because the
// history checkers of tests recognize the response by it.
const UnheldInPart = "the app did not hold the shard (Shardway-Acquire), and part of the body had been sent to it: send the request again, it has not run"

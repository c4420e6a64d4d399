package connpool

import "shardway/peer/mux"

// The proxy recognizes a multiplexed stream by its methods, because it does not import its package.
// A renamed method must not go unnoticed.
var _ MuxStream = (*mux.Stream)(nil)

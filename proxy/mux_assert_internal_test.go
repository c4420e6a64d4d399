package proxy

import "shardway/peer/mux"

// The proxy recognizes a multiplexed stream by its methods, because it does not import its package.
// A renamed method must not go unnoticed.
var _ muxStream = (*mux.Stream)(nil)

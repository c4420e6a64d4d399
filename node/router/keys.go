package router

import (
	"shardway/ack"
	"shardway/proxy/shardkey"
)

// activeKeys is the active key configuration, parsed for the proxy.
type activeKeys struct {
	text string
	keys *shardkey.Keys // nil means that there is no configuration yet, or that text is invalid
	err  error          // error of parsing text
}

// activeKeysOf returns the active key configuration of a state. previous is the result for the previous state;
// it is returned again if the configuration has not changed, which is the usual case.
func activeKeysOf(state *ack.State, previous *activeKeys) *activeKeys {
	if previous != nil && previous.text == state.KeyConfig() {
		return previous
	}
	parsed := &activeKeys{text: state.KeyConfig()}
	if parsed.text == "" {
		return parsed
	}
	if parsed.keys, parsed.err = shardkey.Parse(parsed.text); parsed.err != nil {
		parsed.keys = nil
	}
	return parsed
}

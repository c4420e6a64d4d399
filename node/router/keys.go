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

// keysOf returns the active key configuration of the state s. before is the result for the previous state;
// it is returned again if the configuration has not changed, which is the usual case.
func keysOf(s *ack.State, before *activeKeys) *activeKeys {
	if before != nil && before.text == s.KeyConfig() {
		return before
	}
	a := &activeKeys{text: s.KeyConfig()}
	if a.text == "" {
		return a
	}
	if a.keys, a.err = shardkey.Parse(a.text); a.err != nil {
		a.keys = nil
	}
	return a
}

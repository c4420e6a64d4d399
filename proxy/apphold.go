package proxy

import (
	"time"

	"shardway/proxy/h1"
)

// MaxHold is the maximum duration of a hold. Longer durations are capped.
const MaxHold = 24 * time.Hour

// shownHold is the number of bytes of an invalid value that are logged.
const shownHold = 40

// reportHold records the response header Shardway-Hold. The header contains the number of seconds
// for which the app keeps state of the request's shard that cannot move, such as a kernel, a game
// room or a prompt cache. The client does not receive the header. The ownership epoch is that of
// the request. An invalid value has no effect, and the first one is logged.
func (state *requestState) reportHold(res *h1.Response, epoch uint64) {
	if state.server.options.HoldShard == nil || state.exchange.Keyless {
		return
	}
	value := res.Known(h1.FieldShardwayHold)
	hold, ok := parseHold(value)
	if !ok {
		isFirst := state.server.metrics.InvalidHolds.Add(1) == 1
		if isFirst {
			state.server.options.Log.Warn().Str("value", string(value[:min(len(value), shownHold)])).Uint32("shard", uint32(state.exchange.shard)).
				Str("remedy", "send a whole number of seconds").Msg("invalid Shardway-Hold ignored")
		}
		return
	}
	state.server.options.HoldShard(state.exchange.shard, epoch, hold)
}

// parseHold parses a whole number of seconds. It caps the duration at MaxHold.
func parseHold(value []byte) (d time.Duration, ok bool) {
	const maxSeconds = int(MaxHold / time.Second)
	seconds := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		seconds = min(10*seconds+int(c-'0'), maxSeconds)
	}
	return time.Duration(seconds) * time.Second, len(value) > 0
}

package proxy

import (
	"shardway/proxy/h1"
	"shardway/shardmap"
)

// readForwarded reads what the ingress says.
func (a *asked) readForwarded() (committed, proposed uint64, ok bool) {
	committed, proposed, ok1 := parseMap(a.req.Known(h1.FieldShardwayMap))
	name := a.req.Known(h1.FieldShardwayShard)
	shard, ok2 := parseUint(name)
	switch {
	case ok1 && string(name) == shardNone:
		a.x.keyless = true
	case !ok1 || !ok2 || shard > maxShard:
		return 0, 0, false
	default:
		a.x.shard, a.x.sharded = shardmap.Shard(shard), true
	}
	if v := a.req.Known(h1.FieldShardwayEpoch); v != nil {
		if a.x.wantEpoch, ok = parseUint(v); !ok {
			return 0, 0, false
		}
	}
	a.x.tries = triesOf(&a.req.Head)
	a.x.minted = len(a.req.Value(headerMinted)) > 0
	switch v := a.req.Value(headerContinue); string(v) {
	case continueClient:
		a.x.onDemand, a.x.clientExpects = true, true
	case continueNode:
		a.x.onDemand = true
	case continueTell:
		a.x.tells = true
	}
	return committed, proposed, true
}

// maxShard is the highest number a shard can have.
const maxShard = 1<<16 - 1

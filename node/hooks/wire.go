package hooks

import (
	"encoding/json"

	"shardway/ack/agent"
)

// release, acquire and lost are the bodies of the requests. releaseShard, acquireShard and lostShard are the
// shards in them. See agent.HookCall and agent.HookShard for the fields.
type (
	release struct {
		Seq    uint64         `json:"seq"`
		Disk   string         `json:"disk"`
		Map    uint64         `json:"map"`
		Shards []releaseShard `json:"shards"`
	}
	releaseShard struct {
		Shard uint32  `json:"shard"`
		Epoch uint64  `json:"epoch"`
		To    *string `json:"to"`
		Cut   int     `json:"cut"`
	}
	acquire struct {
		Seq    uint64         `json:"seq"`
		Disk   string         `json:"disk"`
		Map    uint64         `json:"map"`
		Shards []acquireShard `json:"shards"`
	}
	acquireShard struct {
		Shard    uint32  `json:"shard"`
		Epoch    uint64  `json:"epoch"`
		From     *string `json:"from"`
		Released bool    `json:"released"`
		Note     []byte  `json:"note"`
		Again    bool    `json:"again"`
	}
	lost struct {
		Seq    uint64      `json:"seq"`
		Disk   string      `json:"disk"`
		Shards []lostShard `json:"shards"`
	}
	lostShard struct {
		Shard uint32 `json:"shard"`
		Epoch uint64 `json:"epoch"`
	}
)

// encode returns the body of the request for a call. Missing values, such as an unknown next owner, are null.
func encode(call *agent.HookCall, disk string) []byte {
	var body any
	switch call.Kind {
	case agent.HookRelease:
		r := release{Seq: call.Seq, Disk: disk, Map: uint64(call.Map), Shards: []releaseShard{}}
		for _, s := range call.Shards {
			r.Shards = append(r.Shards, releaseShard{uint32(s.Shard), uint64(s.Epoch), orNull(string(s.To)), s.Cut})
		}
		body = r
	case agent.HookAcquire:
		a := acquire{Seq: call.Seq, Disk: disk, Map: uint64(call.Map), Shards: []acquireShard{}}
		for _, s := range call.Shards {
			a.Shards = append(a.Shards, acquireShard{uint32(s.Shard), uint64(s.Epoch), orNull(string(s.From)), s.Released, s.Note, s.Again})
		}
		body = a
	case agent.HookLost:
		l := lost{Seq: call.Seq, Disk: disk, Shards: []lostShard{}}
		for _, s := range call.Shards {
			l.Shards = append(l.Shards, lostShard{uint32(s.Shard), uint64(s.Epoch)})
		}
		body = l
	}
	b, _ := json.Marshal(body) // cannot fail for these types
	return b
}

// orNull returns nil for an empty string, which is encoded as null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

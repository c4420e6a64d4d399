package hooks

import (
	"encoding/json"

	"shardway/ack/agent"
)

// releaseRequest, acquireRequest and lostRequest are the bodies of the requests. releaseShard, acquireShard
// and lostShard are the shards in them. See agent.HookCall and agent.HookShard for the fields.
type (
	releaseRequest struct {
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
	acquireRequest struct {
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
	lostRequest struct {
		Seq    uint64      `json:"seq"`
		Disk   string      `json:"disk"`
		Shards []lostShard `json:"shards"`
	}
	lostShard struct {
		Shard uint32 `json:"shard"`
		Epoch uint64 `json:"epoch"`
	}
)

// encodeRequest returns the body of the request for a call. Missing values, such as an unknown next owner, are null.
func encodeRequest(call *agent.HookCall, disk string) []byte {
	var body any
	switch call.Kind {
	case agent.HookRelease:
		request := releaseRequest{Seq: call.Seq, Disk: disk, Map: uint64(call.Map), Shards: []releaseShard{}}
		for _, shard := range call.Shards {
			request.Shards = append(request.Shards, releaseShard{uint32(shard.Shard), uint64(shard.Epoch), nilIfEmpty(string(shard.To)), shard.Cut})
		}
		body = request
	case agent.HookAcquire:
		request := acquireRequest{Seq: call.Seq, Disk: disk, Map: uint64(call.Map), Shards: []acquireShard{}}
		for _, shard := range call.Shards {
			request.Shards = append(request.Shards, acquireShard{uint32(shard.Shard), uint64(shard.Epoch), nilIfEmpty(string(shard.From)), shard.Released, shard.Note, shard.Again})
		}
		body = request
	case agent.HookLost:
		request := lostRequest{Seq: call.Seq, Disk: disk, Shards: []lostShard{}}
		for _, shard := range call.Shards {
			request.Shards = append(request.Shards, lostShard{uint32(shard.Shard), uint64(shard.Epoch)})
		}
		body = request
	}
	encoded, _ := json.Marshal(body) // cannot fail for these types
	return encoded
}

// nilIfEmpty returns nil for an empty string, which is encoded as null.
func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

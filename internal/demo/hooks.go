package demo

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fasthttp"
)

// hookPath is the path of the hooks of the sample app.
const hookPath = "/_shards"

// hookCall is the body of a hook call, as far as the app uses it.
type hookCall struct {
	Seq    uint64 `json:"seq"`
	Disk   string `json:"disk"`
	Shards []struct {
		Shard uint32 `json:"shard"`
		Epoch uint64 `json:"epoch"`
	} `json:"shards"`
}

// handleHook handles a hook call. The response lists the shards that failed.
func (a *App) handleHook(ctx *fasthttp.RequestCtx, name string) {
	var handle func(shard uint32, epoch uint64) error
	switch name {
	case "acquire":
		handle = a.acquire
	case "release":
		handle = a.release
	case "lost":
		handle = a.lost
	}
	var call hookCall
	if err := json.Unmarshal(ctx.PostBody(), &call); handle == nil || err != nil {
		ctx.Error("no hook of this app", fasthttp.StatusNotFound)
		return
	}
	failed := make(map[string]string)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, shard := range call.Shards {
		if !a.isNewest(call, shard.Shard) {
			continue
		}
		if err := handle(shard.Shard, shard.Epoch); err != nil {
			failed[strconv.FormatUint(uint64(shard.Shard), 10)] = err.Error()
		}
	}
	writeJSON(ctx, map[string]any{"failed": failed})
}

// isNewest reports whether no later call has named the shard. An abandoned call may arrive late. a.mu
// must be held.
func (a *App) isNewest(call hookCall, shard uint32) bool {
	seqs := a.lastSeqs[call.Disk]
	if seqs == nil {
		seqs = make(map[uint32]uint64)
		a.lastSeqs[call.Disk] = seqs
	}
	if call.Seq < seqs[shard] {
		return false
	}
	seqs[shard] = call.Seq
	return true
}

// acquire loads a shard. A repeated call for a held shard has no effect.
func (a *App) acquire(shard uint32, epoch uint64) error {
	if held := a.shards[shard]; held != nil && held.epoch == epoch {
		return nil
	}
	b, err := a.dir.Take(shard, epoch)
	if err != nil {
		return err
	}
	held := &heldShard{epoch: epoch, state: state{Counts: make(map[string]uint64), Rooms: make(map[string]*room)}}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &held.state); err != nil {
			return err
		}
	}
	a.shards[shard] = held
	return nil
}

// release saves a shard and drops it.
func (a *App) release(shard uint32, epoch uint64) error {
	held := a.shards[shard]
	if held == nil || held.epoch != epoch {
		return nil
	}
	if err := a.save(shard, held); err != nil {
		return err
	}
	delete(a.shards, shard)
	return nil
}

// lost drops a shard without saving it, because another node may own it already.
func (a *App) lost(shard uint32, epoch uint64) error {
	if held := a.shards[shard]; held != nil && held.epoch <= epoch {
		delete(a.shards, shard)
	}
	return nil
}

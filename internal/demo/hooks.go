package demo

import (
	"encoding/json"
	"strconv"

	"github.com/valyala/fasthttp"
)

// hookPath is where the nodes tell the sample app what it is to hold.
const hookPath = "/_shards"

// hookCall is what the app reads of a call.
type hookCall struct {
	Seq    uint64 `json:"seq"`
	Disk   string `json:"disk"`
	Shards []struct {
		Shard uint32 `json:"shard"`
		Epoch uint64 `json:"epoch"`
	} `json:"shards"`
}

// hook does what a node says, and answers what failed.
func (a *App) hook(ctx *fasthttp.RequestCtx, name string) {
	var do func(shard uint32, epoch uint64) error
	switch name {
	case "acquire":
		do = a.acquire
	case "release":
		do = a.release
	case "lost":
		do = a.lost
	}
	var call hookCall
	if err := json.Unmarshal(ctx.PostBody(), &call); do == nil || err != nil {
		ctx.Error("no hook of this app", fasthttp.StatusNotFound)
		return
	}
	failed := make(map[string]string)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range call.Shards {
		if !a.newest(call, s.Shard) {
			continue
		}
		if err := do(s.Shard, s.Epoch); err != nil {
			failed[strconv.FormatUint(uint64(s.Shard), 10)] = err.Error()
		}
	}
	answer(ctx, map[string]any{"failed": failed})
}

// newest reports that no later call has named the shard: one that was given up may still
// arrive.
func (a *App) newest(call hookCall, shard uint32) bool {
	seqs := a.seqs[call.Disk]
	if seqs == nil {
		seqs = make(map[uint32]uint64)
		a.seqs[call.Disk] = seqs
	}
	if call.Seq < seqs[shard] {
		return false
	}
	seqs[shard] = call.Seq
	return true
}

// acquire loads a shard. It is no mistake to be told again of one that is held.
func (a *App) acquire(shard uint32, epoch uint64) error {
	if c := a.shards[shard]; c != nil && c.epoch == epoch {
		return nil
	}
	b, err := a.dir.Take(shard, epoch)
	if err != nil {
		return err
	}
	c := &held{epoch: epoch, state: state{Counts: make(map[string]uint64), Rooms: make(map[string]*room)}}
	if len(b) > 0 {
		if err := json.Unmarshal(b, &c.state); err != nil {
			return err
		}
	}
	a.shards[shard] = c
	return nil
}

// release writes a shard for the last time and gives it up.
func (a *App) release(shard uint32, epoch uint64) error {
	c := a.shards[shard]
	if c == nil || c.epoch != epoch {
		return nil
	}
	if err := a.save(shard, c); err != nil {
		return err
	}
	delete(a.shards, shard)
	return nil
}

// lost gives a shard up that another node may have already: nothing is written.
func (a *App) lost(shard uint32, epoch uint64) error {
	if c := a.shards[shard]; c != nil && c.epoch <= epoch {
		delete(a.shards, shard)
	}
	return nil
}

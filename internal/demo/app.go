package demo

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// App is the sample app: it counts the requests of each key in memory, as a
// stateful app would keep a room or a session. The zero value is ready to use,
// by any number of goroutines.
//
// It heeds the ownership epoch as such an app should: what it remembers from an
// earlier ownership is stale, since another copy counted meanwhile, and a
// request from an ownership that has ended is refused.
type App struct {
	mu     sync.Mutex
	shards map[uint64]*counters
}

// counters are the counts of one shard's keys during one ownership.
type counters struct {
	epoch  uint64
	counts map[string]uint64
}

// Answer is what App says about a request.
type Answer struct {
	Node  string `json:"node"`
	Shard uint64 `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Key   string `json:"key"`
	Count uint64 `json:"count"`
}

// Serve counts one request; it is a fasthttp.RequestHandler. GET /healthz is not
// counted.
func (a *App) Serve(ctx *fasthttp.RequestCtx) {
	if string(ctx.Path()) == healthPath {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	h := &ctx.Request.Header
	shard, err := strconv.ParseUint(string(h.Peek("Shardway-Shard")), 10, 32)
	if err != nil {
		ctx.Error("no header Shardway-Shard: send requests to a node's port, not to the app's", fasthttp.StatusBadRequest)
		return
	}
	epoch, err := strconv.ParseUint(string(h.Peek("Shardway-Epoch")), 10, 64)
	if err != nil {
		ctx.Error("no header Shardway-Epoch: send requests to a node's port, not to the app's", fasthttp.StatusBadRequest)
		return
	}
	x := Answer{Node: string(h.Peek("Shardway-Node")), Shard: shard, Epoch: epoch, Key: string(h.Peek("Shardway-Key"))}
	var current bool
	if x.Count, current = a.count(shard, epoch, x.Key); !current {
		ctx.Error("the shard has changed hands since: fenced by its epoch", fasthttp.StatusConflict)
		return
	}
	b, err := json.Marshal(x)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}

// count counts a request of a key, or reports that its epoch is over.
func (a *App) count(shard, epoch uint64, key string) (n uint64, current bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.shards[shard]
	switch {
	case c == nil || c.epoch < epoch:
		c = &counters{epoch: epoch, counts: make(map[string]uint64)}
		if a.shards == nil {
			a.shards = make(map[uint64]*counters)
		}
		a.shards[shard] = c
	case c.epoch > epoch:
		return 0, false
	}
	c.counts[key]++
	return c.counts[key], true
}

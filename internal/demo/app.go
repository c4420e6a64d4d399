package demo

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
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

// ServeHTTP counts one request. GET /healthz is not counted.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	h := r.Header
	shard, err := strconv.ParseUint(h.Get("Shardway-Shard"), 10, 32)
	if err != nil {
		http.Error(w, "no header Shardway-Shard: send requests to a node's port, not to the app's", http.StatusBadRequest)
		return
	}
	epoch, err := strconv.ParseUint(h.Get("Shardway-Epoch"), 10, 64)
	if err != nil {
		http.Error(w, "no header Shardway-Epoch: send requests to a node's port, not to the app's", http.StatusBadRequest)
		return
	}
	x := Answer{Node: h.Get("Shardway-Node"), Shard: shard, Epoch: epoch, Key: h.Get("Shardway-Key")}
	var current bool
	if x.Count, current = a.count(shard, epoch, x.Key); !current {
		http.Error(w, "the shard has changed hands since: fenced by its epoch", http.StatusConflict)
		return
	}
	b, err := json.Marshal(x)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h = w.Header()
	h.Set("Content-Type", "application/json")
	// The client may have gone: the request counts all the same.
	_, _ = w.Write(append(b, '\n'))
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

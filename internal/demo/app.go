package demo

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"shardway/internal/statefile"
)

// App is the sample app: it counts the requests of each key in memory, as a stateful app
// would keep a room or a session, while its node owns the key's shard. What it has
// counted stands in the shard's file before it is answered, and every copy of the app
// begins with what the file says: so the count goes on whoever has the key next.
//
// At /chat each key is a room, which its sockets stay in while the shard moves.
//
// It does what an app behind Shardway should: it loads a shard when the acquire hook says
// so and gives it up at release and lost, asks for what it does not hold (421,
// Shardway-Acquire), and lets the ownership epoch fence what it writes. Any number of
// goroutines may use it.
type App struct {
	dir statefile.Dir

	mu     sync.Mutex
	shards map[uint32]*held
	seqs   map[string]map[uint32]uint64 // by disk of the node and shard, the highest that named it
}

// held is one shard during one ownership.
type held struct {
	epoch uint64
	state
}

// state is what of a shard stands in its file.
type state struct {
	Counts map[string]uint64 `json:"counts"` // by key
	Rooms  map[string]*room  `json:"rooms"`  // likewise
}

// NewApp returns an App that holds nothing yet. All copies of it share the directory.
func NewApp(dir string) *App {
	return &App{dir: statefile.Dir(dir), shards: make(map[uint32]*held), seqs: make(map[string]map[uint32]uint64)}
}

// Answer is what App says about a request.
type Answer struct {
	Node  string `json:"node"`
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Key   string `json:"key"`
	Count uint64 `json:"count"`
}

// errNotAcquired reports that the app does not hold the shard under the epoch of a
// request.
var errNotAcquired = errors.New("demo: not acquired")

// Serve counts one request, or does what a hook says; it is a fasthttp.RequestHandler.
// It answers with an Answer as JSON, or to a browser as a page. GET /healthz is not
// counted.
func (a *App) Serve(ctx *fasthttp.RequestCtx) {
	h := &ctx.Request.Header
	path := string(ctx.Path())
	switch name, hook := strings.CutPrefix(path, hookPath+"/"); {
	case path == healthPath:
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return
	case hook && len(h.Peek("Shardway-Hook")) > 0: // which no client can send
		a.hook(ctx, name)
		return
	}
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
	x := Answer{Node: string(h.Peek("Shardway-Node")), Shard: uint32(shard), Epoch: epoch, Key: string(h.Peek("Shardway-Key"))}
	switch {
	case path == chatPath && asksSocket(h):
		if err = a.has(x); err == nil {
			a.switches(ctx, x)
			return
		}
	case path == chatPath:
		answerChat(ctx)
		return
	default:
		x.Count, err = a.count(x.Shard, epoch, x.Key)
	}
	switch {
	case errors.Is(err, errNotAcquired):
		ctx.Response.Header.Set("Shardway-Acquire", "1")
		ctx.SetStatusCode(fasthttp.StatusMisdirectedRequest)
	case errors.Is(err, statefile.ErrFenced):
		ctx.Error("the shard has changed hands since: fenced by its epoch", fasthttp.StatusConflict)
	case err != nil:
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
	case wantsPage(h):
		answerPage(ctx, x)
	default:
		answer(ctx, x)
	}
}

func answer(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}

// count counts a request of a key. What could not be written is not counted.
func (a *App) count(shard uint32, epoch uint64, key string) (n uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.shards[shard]
	if c == nil || c.epoch != epoch {
		return 0, errNotAcquired
	}
	c.Counts[key]++
	if err := a.save(shard, c); err != nil {
		delete(a.shards, shard) // whatever the file says now: it is loaded again before the next
		return 0, err
	}
	return c.Counts[key], nil
}

func (a *App) save(shard uint32, c *held) error {
	b, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	return a.dir.Save(shard, c.epoch, b)
}

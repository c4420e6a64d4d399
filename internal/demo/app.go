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

// App is the sample app. It counts the requests of each key in memory while its node owns the shard of
// the key. It saves the shard to a file before it responds. The next owner loads the file and continues
// the count.
//
// At /chat each key is a chat room. The WebSockets of the room stay open while the shard moves.
//
// App does what an app behind Shardway should do:
//   - It loads a shard at the hook acquire, and drops it at release and lost.
//   - It responds to a request for a shard that it does not hold with 421 and Shardway-Acquire.
//   - It fences its writes with the ownership epoch.
//
// App is safe for concurrent use.
type App struct {
	dir statefile.Dir

	// mu protects the following fields.
	mu       sync.Mutex
	shards   map[uint32]*heldShard
	lastSeqs map[string]map[uint32]uint64 // disk of the node → shard → highest sequence number of a hook call for it
}

// heldShard is a shard that the app holds, with its ownership epoch.
type heldShard struct {
	epoch uint64
	state
}

// state is the content of the file of a shard.
type state struct {
	Counts map[string]uint64 `json:"counts"` // by key
	Rooms  map[string]*room  `json:"rooms"`  // by key
}

// NewApp returns an App without shards. All instances of the app must use the same directory.
func NewApp(dir string) *App {
	return &App{dir: statefile.Dir(dir), shards: make(map[uint32]*heldShard), lastSeqs: make(map[string]map[uint32]uint64)}
}

// Answer is the JSON response to a counted request.
type Answer struct {
	Node  string `json:"node"`
	Shard uint32 `json:"shard"`
	Epoch uint64 `json:"epoch"`
	Key   string `json:"key"`
	Count uint64 `json:"count"`
}

// errNotAcquired means that the app does not hold the shard with the epoch of the request.
var errNotAcquired = errors.New("demo: not acquired")

// Serve handles a request. It is a fasthttp.RequestHandler. It handles hooks, health checks and the chat,
// and counts all other requests. The response is the type Answer as JSON, or a page for browsers.
func (a *App) Serve(ctx *fasthttp.RequestCtx) {
	header := &ctx.Request.Header
	path := string(ctx.Path())
	if path == healthPath {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	hook, isHook := strings.CutPrefix(path, hookPath+"/")
	if isHook && len(header.Peek("Shardway-Hook")) > 0 { // nodes remove this header from client requests
		a.handleHook(ctx, hook)
		return
	}
	answer, err := parseHeaders(header)
	if err != nil {
		ctx.Error(err.Error()+": send requests to a node's port, not to the app's", fasthttp.StatusBadRequest)
		return
	}
	switch {
	case path == chatPath && isWebSocketUpgrade(header):
		if err = a.checkHeld(answer); err == nil {
			a.upgrade(ctx, answer)
			return
		}
	case path == chatPath:
		writeChatPage(ctx)
		return
	default:
		answer.Count, err = a.count(answer.Shard, answer.Epoch, answer.Key)
	}
	respond(ctx, answer, err)
}

// parseHeaders returns what the node reports about a request in its headers.
func parseHeaders(header *fasthttp.RequestHeader) (Answer, error) {
	shard, err := strconv.ParseUint(string(header.Peek("Shardway-Shard")), 10, 32)
	if err != nil {
		return Answer{}, errors.New("no header Shardway-Shard")
	}
	epoch, err := strconv.ParseUint(string(header.Peek("Shardway-Epoch")), 10, 64)
	if err != nil {
		return Answer{}, errors.New("no header Shardway-Epoch")
	}
	return Answer{
		Node:  string(header.Peek("Shardway-Node")),
		Shard: uint32(shard),
		Epoch: epoch,
		Key:   string(header.Peek("Shardway-Key")),
	}, nil
}

// respond sends answer as the response, or the response for err.
func respond(ctx *fasthttp.RequestCtx, answer Answer, err error) {
	switch {
	case errors.Is(err, errNotAcquired):
		ctx.Response.Header.Set("Shardway-Acquire", "1")
		ctx.SetStatusCode(fasthttp.StatusMisdirectedRequest)
	case errors.Is(err, statefile.ErrFenced):
		ctx.Error("the shard has changed hands since: fenced by its epoch", fasthttp.StatusConflict)
	case err != nil:
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
	case prefersHTML(&ctx.Request.Header):
		writePage(ctx, answer)
	default:
		writeJSON(ctx, answer)
	}
}

func writeJSON(ctx *fasthttp.RequestCtx, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(b, '\n'))
}

// count counts a request of a key. If the shard cannot be saved, it counts nothing and returns an error.
func (a *App) count(shard uint32, epoch uint64, key string) (n uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := a.shards[shard]
	if held == nil || held.epoch != epoch {
		return 0, errNotAcquired
	}
	held.Counts[key]++
	if err := a.save(shard, held); err != nil {
		delete(a.shards, shard) // the content of the file is unknown: the next request reloads the shard
		return 0, err
	}
	return held.Counts[key], nil
}

func (a *App) save(shard uint32, held *heldShard) error {
	b, err := json.Marshal(held.state)
	if err != nil {
		return err
	}
	return a.dir.Save(shard, held.epoch, b)
}

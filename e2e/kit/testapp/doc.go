//go:build linux

// Command app is the application that runs behind each node in end-to-end tests. It records the
// start and the end of each request in a file, with timestamps of history.Now. The file outlives
// the node, the test and the app.
//
// # Requests of clients
//
// A request that has the header Shardway-Shard comes from a node. Its headers select the response:
//
//	App-Id        request ID of the client; the response repeats it
//	App-Delay     wait this Go duration before the response, or before each chunk
//	App-Hang      wait for POST /release?name=NAME
//	App-Chunks    send the body in this number of chunks
//	App-Size      pad the body with spaces to this number of bytes
//	App-Set-Cookie
//	              set this cookie in the response
//	App-Die       kill the app: "before" the response or in the "middle" of its body
//	App-Register  use the register of the key: "memory", "store" or "unfenced"
//	App-Late      wait this Go duration before the register is used
//	App-Events    send one server-sent event per interval until the client disconnects
//	App-Until     with App-Events: end the stream at POST /release?name=NAME
//	App-Feed      send events with IDs per interval, starting after Last-Event-ID; another app
//	              can continue the stream
//	App-End-Source
//	              stop if the request has ended before the register is used, according to its
//	              "context" or the "node" in this process
//	App-Hold      value of the response header Shardway-Hold
//
// The response is a JSON object with app, id, key, shard, epoch and count. The headers App-Name,
// App-Id and App-Count repeat three of these fields. The value of count is the number of requests
// for the key, unless --state or --cache changes its meaning.
//
// # Registers (--store)
//
// Each key has a register. POST writes the body, 1 to 64 bytes of printable ASCII, to the store
// before the response. GET reads the register and returns its value in the header App-Value.
//
//   - "store": the app reads the store.
//   - "memory": the app reads its memory, which has one value per key and ownership epoch. The
//     first operation in an epoch loads the value from the store.
//   - "unfenced": as "memory", with a store that ignores epochs.
//
// The store rejects an epoch older than the newest epoch it has received for the shard. The
// response is then 409 with the error "fenced", and nothing was written. The response is 503 if
// the store did not answer in time: the value may have been written, or may be written later.
//
// # State that moves with its shard (--state DIR)
//
// The app keeps one counter for each key in memory while it has acquired the shard of the key.
// POST increments the counter, other methods read it, and App-Count is its value. Hooks below
// /_state/ load a shard from DIR and save it there; with --through each POST saves it. A request
// for a shard that the app has not acquired gets 421.
//
// # Cached counters (--cache DIR)
//
// POST increments a counter of the key, and App-Count is its value. The app loads the counter from
// DIR once, keeps it in memory and saves each change. This mode has no hooks.
//
// # Control requests
//
// A request without Shardway-Shard comes from the test:
//
//	GET  /records                      list the recorded requests
//	GET  /executions?id=ID             number of times that the app ran this request
//	POST /release?name=NAME            release current and later requests with App-Hang: NAME
//	GET  /hanging?name=NAME            number of requests that wait for this name
//	POST /set-health?status=S&text=T   set the status and the text of responses to health checks
//	POST /close-port?for=2s&all=true   close the port for a duration, with all=true also the connections
//	POST /forget                       clear the memory of --cache
//	GET  /hook-calls                   list the hook calls of --state
//	POST /hook-fault?hook=HOOK&how=F   make a hook fail (see setFault)
//	POST /flush                        save all shards of --state
//
// With --embed the app runs in the process of a node. The arguments after -- are flags of shardway
// run, requests come from this node, and --listen serves only control requests.
package main

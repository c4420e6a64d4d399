//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
)

// chatServer is an app like a server of a language model: it keeps the messages of each conversation in
// memory, so all requests of a conversation must reach one instance.
type chatServer struct {
	id string

	mu       sync.Mutex
	messages map[string]int // number of messages by conversation
}

// chatReply is the response of a chatServer.
type chatReply struct {
	App, Key string
	Messages int
}

func (s *chatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conversation := ""
	switch r.URL.Path {
	case "/v1/chat": // the conversation is in the body
		var body struct {
			Metadata struct{ Conversation string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		conversation = body.Metadata.Conversation
	case "/v1/threads": // only the app can find the conversation of a thread
		thread, _ := io.ReadAll(r.Body)
		conversation = strings.Replace(strings.TrimSpace(string(thread)), "thread", "conversation", 1)
		if r.Header.Get("Shardway-Key") != conversation {
			w.Header().Set("Shardway-Key", conversation)
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[conversation]++
	_ = json.NewEncoder(w).Encode(chatReply{s.id, r.Header.Get("Shardway-Key"), s.messages[conversation]})
}

// TestBodyAndAppNameTheKey sends the messages of several conversations through all nodes: with the key in a
// JSON body, and with a key that only the app can find. All messages of a conversation reach one app
// instance, and each message runs once, also while a node drains.
func TestBodyAndAppNameTheKey(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	c := cluster.New(t, cluster.Options{
		Binaries: binaries(t), Shards: shards, Secret: hasSecret(t),
		Flags: []string{"--bootstrap-expect", "3", "--key", "json:/metadata/conversation", "--on-missing-key", "local", "--body-buffer", "16KiB"},
	})
	for _, id := range []string{"a", "b", "c"} {
		server := httptest.NewServer(&chatServer{id: id, messages: map[string]int{}})
		t.Cleanup(server.Close)
		c.Prepare(t, "--upstream", server.URL)
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	send := func(node *cluster.Node, path, contentType, body string) (int, chatReply) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+node.Addr+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", contentType)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		var reply chatReply
		if resp.StatusCode == http.StatusOK {
			must(t, json.NewDecoder(resp.Body).Decode(&reply))
		}
		return resp.StatusCode, reply
	}
	apps := map[string]bool{}
	for i := range 12 {
		conversation := fmt.Sprintf("conversation-%d", i)
		app, sent := "", 0
		for _, node := range c.Running() {
			inJSON := fmt.Sprintf(`{"model":"m","metadata":{"conversation":%q},"messages":[%q]}`, conversation, strings.Repeat("x", 5000))
			for path, request := range map[string][2]string{
				"/v1/chat": {"application/json", inJSON}, "/v1/threads": {"text/plain", fmt.Sprintf("thread-%d", i)},
			} {
				sent++
				status, reply := send(node, path, request[0], request[1])
				if app == "" {
					app = reply.App
				}
				if want := (chatReply{app, conversation, sent}); status != http.StatusOK || reply != want {
					t.Errorf("%s by %s: %d %+v, want %+v", path, node.ID, status, reply, want)
				}
			}
		}
		apps[app] = true
	}
	if len(apps) != 3 {
		t.Errorf("12 conversations are all at %v", apps)
	}
	node := c.Running()[0]
	if status, _ := send(node, "/v1/chat", "application/json", `{"metadata":{"conversation":"a","conversation":"b"}}`); status != http.StatusBadRequest {
		t.Errorf("two conversations in one body: %d, want 400", status)
	}
	if status, _ := send(node, "/v1/threads", "text/plain", "thread-1"+strings.Repeat(" ", 64<<10)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body of which the app names the key: %d, want 413", status)
	}
	if out, code := shardway(t, "drain", "a", "--wait", "--admin", node.Admin); code != 0 {
		t.Fatalf("drain: exit %d, %s", code, out)
	}
	for i := range 12 {
		for _, node := range c.Running() {
			if status, reply := send(node, "/v1/threads", "text/plain", fmt.Sprintf("thread-%d", i)); status != http.StatusOK || reply.App == "a" {
				t.Errorf("after the drain, by %s: %d %+v", node.ID, status, reply)
			}
		}
	}
}

//go:build linux

package recipes_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// TestLLMConversationsStayWithTheirInstance runs conversations of the client library of OpenAI. The server is a
// stand-in: no registry has a server with a model. It keeps prompts in memory as a real server does.
func TestLLMConversationsStayWithTheirInstance(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, node := npmCI(t, "llm"), findProgram(t, "node")
	w := startWorld(t, func(id string, port int, data string) (args, env []string) {
		return []string{node, filepath.Join(dir, "server.mjs")}, []string{fmt.Sprint("PORT=", port), "INSTANCE=" + id, "DIR=" + data}
	}, "--key=json:/prompt_cache_key,header:X-Conversation")
	c := &llmClients{w: w, lines: startLines(t, node, filepath.Join(dir, "client.mjs")), turns: map[string]int{}}
	for _, node := range w.Nodes() {
		c.conversations = append(c.conversations, w.keysOf(t, node, 2)...)
	}
	for range 3 {
		c.talk(t, cluster.Addrs(w.Nodes()))
	}

	// The instances continue to run, so no prompt is lost.
	w.restartNodes(t, func(addrs []string) { c.talk(t, addrs) })
	c.talk(t, cluster.Addrs(w.Nodes()))

	// A drain with --idle-first waits for the end of a response.
	conversation := c.conversations[0]
	owner := w.ownerOf(t, conversation)
	c.start(t, conversation, w.Others(owner)[0].Addr, "slow")
	owner.PerformAction(t, "drain", url.Values{"node": {owner.ID}, "idle_first": {"5m"}})
	w.awaitShards(t, owner, 1)
	c.continueResponse(t, owner, conversation)
	c.checkTurn(t, conversation, owner.ID, true)
	w.awaitShards(t, owner, 0)
	for _, conversation := range c.conversations {
		if next := w.ownerOf(t, conversation); next != owner {
			c.start(t, conversation, w.Nodes()[0].Addr, "fast")
			c.checkTurn(t, conversation, next.ID, false)
		}
	}
	w.uncordon(t, owner)

	// The crash of an instance aborts a response. The client notices that, and repeats the turn.
	owner = w.ownerOf(t, conversation)
	c.start(t, conversation, w.Others(owner)[0].Addr, "slow")
	crashed := w.instances[owner.ID]
	crashed.kill()
	c.checkAborted(t, conversation)
	crashed.start(t)
	crashed.awaitPort(t)
	w.AwaitServing(t)
	c.start(t, conversation, w.Others(owner)[1].Addr, "fast")
	c.checkTurn(t, conversation, "", false)

	// The same applies to the crash of the owner's node.
	owner = w.ownerOf(t, conversation)
	c.start(t, conversation, w.Others(owner)[0].Addr, "slow")
	w.killNode(t, owner)
	c.checkAborted(t, conversation)
	for _, addr := range cluster.Addrs(w.Running()) {
		c.start(t, conversation, addr, "fast")
		c.checkTurn(t, conversation, w.ownerOf(t, conversation).ID, false)
	}
	w.checkOwners(t, 50)
}

// llmClients is the process with all conversations.
type llmClients struct {
	*lines

	w             *world
	conversations []string
	turns         map[string]int // number of complete turns of each conversation
}

// turn is the result of a turn of a conversation.
type turn struct {
	Content  string `json:"content"`
	Instance string `json:"instance"`
	Cached   int    `json:"cached"`   // messages of the prompt that the instance already had
	Finished bool   `json:"finished"` // the response has a finish_reason
	Error    string `json:"error"`    // error of the client library
}

// llmResponse is the complete response of the stand-in.
const llmResponse = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 "

// talk adds a turn to each conversation. Its instance must have all earlier messages.
func (c *llmClients) talk(t *testing.T, addrs []string) {
	t.Helper()
	for i, conversation := range c.conversations {
		c.start(t, conversation, addrs[(i+c.turns[conversation])%len(addrs)], "fast")
		c.checkTurn(t, conversation, "", true)
	}
}

// start begins a turn, and waits for a part of the response.
func (c *llmClients) start(t *testing.T, conversation, addr, model string) {
	t.Helper()
	var begun turn
	must(t, json.Unmarshal(c.ask(t, strings.Join([]string{"start", conversation, addr, model}, " ")), &begun))
	if begun.Error != "" {
		t.Errorf("%s: %s", conversation, begun.Error)
	}
}

// finish waits for the end of the turn.
func (c *llmClients) finish(t *testing.T, conversation string) turn {
	t.Helper()
	var ended turn
	must(t, json.Unmarshal(c.ask(t, "finish "+conversation), &ended))
	return ended
}

// checkTurn waits for the end of a turn. The response must be complete. isCached means that the instance must have
// had all earlier messages. An empty instance means any.
func (c *llmClients) checkTurn(t *testing.T, conversation, instance string, isCached bool) {
	t.Helper()
	ended := c.finish(t, conversation)
	isWrong := isCached && ended.Cached != 2*c.turns[conversation] || instance != "" && ended.Instance != instance
	if isWrong || ended.Content != llmResponse || !ended.Finished || ended.Error != "" {
		t.Errorf("turn %d of %s at %s: %+v", c.turns[conversation], conversation, instance, ended)
	}
	c.turns[conversation]++
}

// checkAborted waits for the end of a turn. The client must notice that the response is incomplete.
func (c *llmClients) checkAborted(t *testing.T, conversation string) {
	t.Helper()
	if ended := c.finish(t, conversation); ended.Error == "" || ended.Finished || ended.Content == "" {
		t.Errorf("the client has not noticed the abort: %+v", ended)
	}
}

// continueResponse lets the instance of a node continue a response of the model "slow".
func (c *llmClients) continueResponse(t *testing.T, node *cluster.Node, conversation string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(c.w.instances[node.ID].dir, "continue-"+conversation), nil, 0o600))
}

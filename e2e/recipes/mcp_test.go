//go:build linux

package recipes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// TestMCPSessionsStayWithTheirInstance runs the example server of the MCP TypeScript SDK, with its sessions in memory.
// Its own client uses all nodes in turn.
func TestMCPSessionsStayWithTheirInstance(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, node := npmCI(t, "mcp"), findProgram(t, "node")
	server := filepath.Join(dir, "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js")
	w := startWorld(t, func(_ string, port int, _ string) (args, env []string) {
		return []string{node, server}, []string{fmt.Sprint("MCP_PORT=", port)}
	}, "--key=wrap:header:Mcp-Session-Id,mint")
	out, err := exec.CommandContext(t.Context(), node, append([]string{filepath.Join(dir, "client.mjs")}, cluster.Addrs(w.Nodes())...)...).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "9 calls\n") {
		t.Fatalf("the client of the SDK: %v\n%s", err, out)
	}
	clients := make([]*sessionClient, sessionCount)
	for i := range clients {
		c := &mcpClient{http: &http.Client{Timeout: 30 * time.Second}}
		clients[i] = &sessionClient{used: i, send: c.greet}
	}
	checkSessions(t, w, clients)
}

// mcpClient is an MCP client with one session.
type mcpClient struct {
	http    *http.Client
	session string // Mcp-Session-Id; empty means that there is no session
	count   int    // number of calls in the session
}

// greet calls a tool of the server. If the server does not know the session, the client begins a new one, as the
// specification of MCP requires.
func (c *mcpClient) greet(ctx context.Context, addr string) (visit, error) {
	for {
		if c.session == "" {
			if err := c.initialize(ctx, addr); err != nil {
				return visit{}, err
			}
		}
		res, err := c.post(ctx, addr, "tools/call", map[string]any{"name": "greet", "arguments": map[string]string{"name": "Ada"}}, true)
		switch {
		case err != nil:
			return visit{}, err
		case res.status == http.StatusNotFound && c.count > 0:
			c.session, c.count = "", 0
			continue
		case res.status != http.StatusOK || !strings.Contains(res.body, "Hello, Ada"):
			return visit{}, fmt.Errorf("tools/call: %d: %.300s", res.status, res.body)
		}
		c.count++
		return visit{Count: c.count, Instance: res.header.Get("Shardway-Node")}, nil
	}
}

// initialize begins a session.
func (c *mcpClient) initialize(ctx context.Context, addr string) error {
	params := map[string]any{"protocolVersion": "2025-03-26", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "recipe", "version": "1"}}
	res, err := c.post(ctx, addr, "initialize", params, true)
	if err != nil {
		return err
	}
	c.session = res.header.Get("Mcp-Session-Id")
	if res.status != http.StatusOK || !strings.Contains(c.session, ".sw-") {
		return fmt.Errorf("initialize: %d, session %q: %.300s", res.status, c.session, res.body)
	}
	res, err = c.post(ctx, addr, "notifications/initialized", nil, false)
	if err == nil && res.status != http.StatusAccepted {
		err = fmt.Errorf("notifications/initialized: %d: %.300s", res.status, res.body)
	}
	return err
}

// mcpResponse is a response whose body has been read.
type mcpResponse struct {
	status int
	header http.Header
	body   string
}

// post sends a JSON-RPC request, or a notification if hasID is false.
func (c *mcpClient) post(ctx context.Context, addr, method string, params any, hasID bool) (mcpResponse, error) {
	message := map[string]any{"jsonrpc": "2.0", "method": method}
	if hasID {
		message["id"] = 1
	}
	if params != nil {
		message["params"] = params
	}
	text, err := json.Marshal(message)
	if err != nil {
		return mcpResponse{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/mcp", bytes.NewReader(text))
	if err != nil {
		return mcpResponse{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return mcpResponse{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return mcpResponse{res.StatusCode, res.Header, string(body)}, err
}

package demo

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"shardway/admin/client"
)

// printLine writes one line to the user. It ignores errors, because the terminal may be gone.
func (f *fleet) printLine(format string, args ...any) {
	_, _ = f.out.Write(fmt.Appendf(nil, format+"\n", args...))
}

// exampleKey is the key of the commands that the demo prints.
const exampleKey = "alice"

// ownerOf returns the index of the node that owns a key, and 0 if no node answers.
func (f *fleet) ownerOf(ctx context.Context, key string) int {
	client, err := client.New(addr(f.layout.nodes[0].admin))
	if err != nil {
		return 0
	}
	defer client.Close()
	location, err := client.Locate(ctx, key)
	if err != nil {
		return 0
	}
	return max(0, slices.IndexFunc(f.nodes, func(p *proc) bool { return p.node == location.Owner }))
}

// welcome prints the addresses of all processes and commands to try.
func (f *fleet) welcome(ctx context.Context) {
	var text bytes.Buffer
	text.WriteString("\nThree nodes serve, each in front of an app that counts the requests of every key\nand writes each shard to a file that the next owner reads.\n\n")
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	// Writing to a bytes.Buffer cannot fail.
	_, _ = fmt.Fprintln(w, "  node\tpid\tapp traffic\tstatus page\tits app")
	for i, n := range f.layout.nodes {
		_, _ = fmt.Fprintf(w, "  %s\t%d\thttp://%s\thttp://%s/status\thttp://%s (pid %d)\n",
			n.id, f.nodes[i].pid(), addr(n.http), addr(n.admin), addr(n.app), f.apps[i].pid())
	}
	_ = w.Flush()
	nodes := f.layout.nodes
	text.WriteString("\nTry in another terminal:\n\n  # one key, one node, whichever port you ask; the count goes up by one each time\n")
	for _, n := range nodes {
		fmt.Fprintf(&text, "  curl -H 'X-Shard-Key: %s' http://%s/\n", exampleKey, addr(n.http))
	}
	adminFlag := ""
	if nodes[0].admin != defaultAdminPort {
		adminFlag = " --admin " + addr(nodes[0].admin)
	}
	fmt.Fprintf(&text, "\n  # a browser has a key of its own, a cookie, and sees it counted\n  http://%s/\n", addr(nodes[0].http))
	f.writeChatExample(ctx, &text, adminFlag)
	fmt.Fprintf(&text, "\n  # who leads, who owns how much, and where a key lives\n")
	fmt.Fprintf(&text, "  %s status%s\n", f.options.Command, adminFlag)
	fmt.Fprintf(&text, "  %s locate %s%s\n", f.options.Command, exampleKey, adminFlag)
	owner := f.ownerOf(ctx, exampleKey)
	fmt.Fprintf(&text, "\n  # kill the node that owns the key, or its app, and ask again: another node continues at the next number\n")
	fmt.Fprintf(&text, "  kill -9 %d\n", f.nodes[owner].pid())
	fmt.Fprintf(&text, "  kill -9 %d\n", f.apps[owner].pid())
	fmt.Fprintf(&text, "  # requests that run meanwhile do not fail, and what was killed comes back after %v\n", f.options.RestartAfter)
	fmt.Fprintf(&text, "  while sleep 0.1; do curl -s -H \"X-Shard-Key: $((RANDOM %% 20))\" http://%s/; done\n", addr(nodes[0].http))
	fmt.Fprintf(&text, "\nState: %s/*/*. Logs: %s/*.log. Ctrl-C stops everything and removes them.\n\n", stateDir(f.dir), f.dir)
	_, _ = f.out.Write(text.Bytes())
}

// chatRoom is the room of the example.
const chatRoom = "tea"

// writeChatExample writes commands that show that a WebSocket stays open when the owner of its room
// is drained, and when all nodes except the one that the browser uses restart.
func (f *fleet) writeChatExample(ctx context.Context, b *bytes.Buffer, adminFlag string) {
	owner := f.layout.nodes[f.ownerOf(ctx, chatRoom)]
	fmt.Fprintf(b, "\n  # a chat room: open it in a browser or two, then drain its owner, and restart other nodes: they stay connected\n")
	fmt.Fprintf(b, "  http://%s%s?room=%s\n", addr(f.layout.nodes[0].http), chatPath, chatRoom)
	fmt.Fprintf(b, "  %s drain %s --wait%s\n", f.options.Command, owner.id, adminFlag)
	fmt.Fprintf(b, "  %s uncordon %s%s\n", f.options.Command, owner.id, adminFlag)
	for _, n := range f.nodes[1:] {
		fmt.Fprintf(b, "  kill %d\n", n.pid())
	}
}

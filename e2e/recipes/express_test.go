//go:build linux

package recipes_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestExpressSessionsStayWithTheirInstance runs express-session with its MemoryStore.
func TestExpressSessionsStayWithTheirInstance(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, node := npmCI(t, "express"), findProgram(t, "node")
	w := startWorld(t, func(id string, port int, _ string) (args, env []string) {
		return []string{node, filepath.Join(dir, "app.cjs")}, []string{"NODE_ENV=production", fmt.Sprint("PORT=", port), "INSTANCE=" + id}
	}, "--key=wrap:cookie:connect.sid,mint")
	checkCookieSessions(t, w, "/visit")
}

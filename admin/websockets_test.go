package admin_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"shardway/admin/api"
)

func TestSocketsAreBrokenByShardKeyOrAll(t *testing.T) {
	js := []string{"Content-Type", "application/json"}
	key := keyOf(1)
	one := uint32(1)
	for _, tc := range []struct {
		target, body string
		want         api.SocketBreak
		logged       string
	}{
		{"/v1/websockets?move_test=true&all=true", "", api.SocketBreak{All: true}, "move-test websockets"},
		{"/v1/websockets?move_test=true&gap=true&shard=1", "", api.SocketBreak{Shard: &one, Gap: true}, "move-test websockets of shard 1 with a gap"},
		{"/v1/websockets", `{"move_test":true,"key":"` + key + `"}`, api.SocketBreak{Key: &key}, "move-test websockets of key_hash 000000000000006b of shard 1"},
	} {
		f := newFake()
		h, log := guarded(t, f)
		headers := []string{"Authorization", "Bearer " + writeToken}
		if tc.body != "" {
			headers = append(headers, js...)
		}
		res := fetchJSON(t, h, "POST", tc.target, tc.body, headers...)
		if got := body(res); res.Code != 200 || got != `{"websockets":3,"nodes":{"n1":3},"unresponsive":[]}`+"\n" {
			t.Errorf("POST %s %s = %d, %s", tc.target, tc.body, res.Code, got)
		}
		if len(f.mu.broke) != 1 || show(f.mu.broke[0]) != show(tc.want) {
			t.Errorf("POST %s %s broke %+v", tc.target, tc.body, f.mu.broke)
		}
		if lines := log.lines(t, "change requested"); len(lines) != 1 || !strings.HasPrefix(fmt.Sprint(lines[0]["what"]), tc.logged) || strings.Contains(fmt.Sprint(lines[0]), key) {
			t.Errorf("POST %s %s is logged as %v", tc.target, tc.body, lines)
		}
	}
}

// show formats the fields of a break, including the targets of pointers.
func show(b api.SocketBreak) string {
	text := strconv.FormatBool(b.Gap)
	if b.Key != nil {
		text += " key " + *b.Key
	}
	if b.Shard != nil {
		text += fmt.Sprint(" shard ", *b.Shard)
	}
	return text
}

func TestBreakOfNoWebSocketReportsZero(t *testing.T) {
	for target, tc := range map[string]struct {
		code int
		want string
	}{
		"/v1/websockets":                              {400, "give {\\\"move_test\\\":true}"},
		"/v1/websockets?move_test=false":              {400, "give {\\\"move_test\\\":true}"},
		"/v1/websockets?move_test=true&shard=9":       {400, "is not a shard of this cluster"},
		"/v1/websockets?move_test=true&shard=1&key=a": {400, "give one of all, key and shard"},
		"/v1/websockets?move_test=true":               {400, "all is missing: give one of all, key and shard"},
		"/v1/websockets?move_test=true&all=1&shard=1": {400, "give one of all, key and shard"},
		"/v1/websockets?move_test=true&shard=2":       {404, "no resumable WebSocket of shard 2 has a connection to its app; n2 did not respond"},
	} {
		f := newFake()
		res := fetchJSON(t, handlerOf(f), "POST", target, "")
		if got := body(res); res.Code != tc.code || !strings.Contains(got, tc.want) || len(f.mu.broke) > 0 {
			t.Errorf("POST %s = %d, %s; broke %v", target, res.Code, got, f.mu.broke)
		}
	}
	h, _ := guarded(t, newFake())
	if res := fetchJSON(t, h, "POST", "/v1/websockets?move_test=true&all=true", "", "Authorization", "Bearer "+readToken); res.Code != 403 {
		t.Errorf("who may read breaks sockets: %d", res.Code)
	}
}

package admin_test

import (
	"strings"
	"testing"
)

// The query parameter key is treated as a misplaced token only if the request contains no valid token.
// Once, half of the endpoints that take a key rejected requests with a valid token.
func TestKeyParameterIsNotToken(t *testing.T) {
	h, _ := guarded(t, newFake())
	for _, path := range []string{"pin?node=n3", "unpin?", "quarantine?for=1h", "lift?", "websockets?move_test=true&all=true"} {
		if res := fetchJSON(t, h, "POST", "/v1/"+path+"&key=alice", "", "Authorization", "Bearer "+writeToken); res.Code == 401 {
			t.Errorf("/v1/%s with a key and a token = %d %s, want what it does", path, res.Code, body(res))
		}
		if res := fetchJSON(t, h, "POST", "/v1/"+path+"&key="+writeToken, ""); res.Code != 401 || !strings.Contains(body(res), "only in the header") {
			t.Errorf("/v1/%s with the token as its key = %d %s, want 401", path, res.Code, body(res))
		}
	}
}

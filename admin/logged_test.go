package admin_test

import (
	"fmt"
	"strings"
	"testing"
)

// Texts from requests are shortened in the log. Once, a node name of 60 KiB caused a log line of 60
// KiB, and so did the path of an unauthorized request.
func TestLongWordsAreShortenedInTheLog(t *testing.T) {
	h, log := guarded(t, newFake())
	long := strings.Repeat("é", 30<<10)
	fetchJSON(t, h, "POST", "/v1/remove", `{"node":"`+long+`"}`, "Content-Type", "application/json", "Authorization", "Bearer "+writeToken)
	fetchJSON(t, h, "POST", "/"+long, "", "Authorization", "Bearer wrong")
	for message, field := range map[string]string{"change requested": "what", "admin request refused": "path"} {
		lines := log.lines(t, message)
		if len(lines) != 1 {
			t.Fatalf("%d lines %q", len(lines), message)
		}
		if text := fmt.Sprint(lines[0][field]); len(text) < 100 || len(text) > 520 || !strings.HasSuffix(text, "é…") {
			t.Errorf("%s: %d bytes, %.20q", message, len(text), text)
		}
	}
}

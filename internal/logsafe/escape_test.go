package logsafe_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"shardway/internal/logsafe"
)

// Log lines contain request keys and text from clients without a token. JSON escapes ESC,
// but a terminal interprets U+009B like ESC [.
func TestLogLinesContainNoTerminalControls(t *testing.T) {
	for _, text := range []string{
		"x\u009b2J", "\u0085next", "a\u202eb", "a\u2028b\u2029", "\u200b", "\x7f", "\U000e0041", "\x1b[2J\r\n", "plain", "naïve 日本 😀", "bad\xff\xc2", "",
	} {
		var b bytes.Buffer
		l := logsafe.New(&b, false)
		l.Info().Str("path", text).Msg(text)
		line, whole := strings.CutSuffix(b.String(), "\n")
		if i := strings.IndexFunc(line, func(r rune) bool {
			return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
		}); i >= 0 || !whole {
			t.Errorf("%q: the line is %q", text, line)
		}
		var got struct{ Path, Message string }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if utf8.ValidString(text) && (got.Path != text || got.Message != text) {
			t.Errorf("%q is read as %q, %q", text, got.Path, got.Message)
		}
	}
}

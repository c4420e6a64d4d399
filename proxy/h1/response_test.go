package h1_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"shardway/proxy/h1"
)

func TestRefusedAnswers(t *testing.T) {
	tests := []struct{ name, method, bytes string }{
		{"no HTTP", "GET", "hello\r\n\r\n"},
		{"empty line before", "GET", "\r\nHTTP/1.1 200 OK\r\n\r\n"},
		{"HTTP/1.2", "GET", "HTTP/1.2 200 OK\r\n\r\n"},
		{"HTTP/2", "GET", "HTTP/2 200 OK\r\n\r\n"},
		{"HTTP/2.0", "GET", "HTTP/2.0 200 OK\r\n\r\n"},
		{"lower case", "GET", "http/1.1 200 OK\r\n\r\n"},
		{"no code", "GET", "HTTP/1.1\r\n\r\n"},
		{"short code", "GET", "HTTP/1.1 20 OK\r\n\r\n"},
		{"long code", "GET", "HTTP/1.1 2000 OK\r\n\r\n"},
		{"code below 100", "GET", "HTTP/1.1 099 OK\r\n\r\n"},
		{"signed code", "GET", "HTTP/1.1 +20 OK\r\n\r\n"},
		{"code in words", "GET", "HTTP/1.1 abc OK\r\n\r\n"},
		{"two spaces", "GET", "HTTP/1.1  200 OK\r\n\r\n"},
		{"tab", "GET", "HTTP/1.1\t200 OK\r\n\r\n"},
		{"CR in the reason", "GET", "HTTP/1.1 200 O\rK\r\n\r\n"},
		{"bare LF", "GET", "HTTP/1.1 200 OK\n\n"},
		{"bare LF behind a header", "GET", "HTTP/1.1 200 OK\r\nA: b\n\r\n"},
		{"folded behind white space", "GET", "HTTP/1.1 200 OK\r\nA: b\r\n \r\nC: d\r\n\r\n"},
		{"folded first line", "GET", "HTTP/1.1 200 OK\r\n A: b\r\n\r\n"},
		{"folded length", "GET", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 1\r\n\r\n"},
		{"folded coding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n chunked\r\n\r\n"},
		{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"},
		{"list of lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n"},
		{"list that ends in a comma", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1,\r\n\r\n"},
		{"coding with a space before the colon", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n"},
		{"coding twice", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"CR among control bytes", "GET", "HTTP/1.1 200 OK\r\nA: \a\rb\r\n\r\n"},
		{"space before the colon", "GET", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"},
		{"space in a name", "GET", "HTTP/1.1 200 OK\r\nA B: c\r\n\r\n"},
		{"no colon", "GET", "HTTP/1.1 200 OK\r\nA\r\n\r\n"},
		{"bad name without a colon", "GET", "HTTP/1.1 200 OK\r\nA(b)\r\n\r\n"},
		{"empty name", "GET", "HTTP/1.1 200 OK\r\n: b\r\n\r\n"},
		{"bad name with a space before the colon", "GET", "HTTP/1.1 200 OK\r\nA(b) : c\r\n\r\n"},
		{"bad name with a space", "GET", "HTTP/1.1 200 OK\r\nA( b: c\r\n\r\n"},
		{"bad name with a tab", "GET", "HTTP/1.1 200 OK\r\nA(\tb: c\r\n\r\n"},
		{"control byte in a name", "GET", "HTTP/1.1 200 OK\r\nA\x01b: c\r\n\r\n"},
		{"DEL in a name", "GET", "HTTP/1.1 200 OK\r\nA\x7f: c\r\n\r\n"},
		{"NUL in a name", "GET", "HTTP/1.1 200 OK\r\nA(\x00: c\r\n\r\n"},
		{"NUL behind a bad name", "GET", "HTTP/1.1 200 OK\r\nA(: c\x00\r\n\r\n"},
		{"CR behind a bad name", "GET", "HTTP/1.1 200 OK\r\nA(: c\rContent-Length: 1\r\n\r\n"},
		{"LF behind a bad name", "GET", "HTTP/1.1 200 OK\r\nA(: c\nContent-Length: 1\r\n\r\n"},
		{"bad byte behind Content-Length", "GET", "HTTP/1.1 200 OK\r\nContent-Length(: 1\r\n\r\n"},
		{"bad byte in Content-Length", "GET", "HTTP/1.1 200 OK\r\nContent\xadLength: 1\r\n\r\n"},
		{"mark before Content-Length", "GET", "HTTP/1.1 200 OK\r\n\xef\xbb\xbfcontent-length: 1\r\n\r\n"},
		{"quotes around Transfer-Encoding", "GET", "HTTP/1.1 200 OK\r\n\"Transfer-Encoding\": chunked\r\n\r\n"},
		{"long s in Transfer-Encoding", "GET", "HTTP/1.1 200 OK\r\ntran\u017ffer-encoding: chunked\r\n\r\n"},
		{"folded behind a framing name", "GET", "HTTP/1.1 200 OK\r\n(Content-Length:\r\n 1\r\n\r\n"},
		{"NUL", "GET", "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n"},
		{"length and coding", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"negative length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"},
		{"gzip", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"},
		{"gzip, chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
		{"identity", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n"},
		{"coding in HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"101 to nothing", "GET", "HTTP/1.1 101 Switch\r\nConnection: upgrade\r\n\r\n"},
		{"101 without Connection", "GET", "HTTP/1.1 101 Switch\r\nUpgrade: x\r\n\r\n"},
		{"101 in HTTP/1.0", "GET", "HTTP/1.0 101 Switch\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
		{"long head", "GET", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 80)},
		{"endless line", "GET", strings.Repeat("a", 70<<10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []*h1.Conn{over(tt.bytes), trickle(tt.bytes)} {
				var r h1.Response
				wantStatus(t, c.ReadResponse(&r, []byte(tt.method)), 502)
			}
		})
	}
}

func TestAcceptedAnswers(t *testing.T) {
	tests := []struct{ name, method, bytes, want string }{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "200 OK length keep"},
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "200 OK none keep"},
		{"HEAD in chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK none keep"},
		{"HEAD without either", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", "200 OK none keep"},
		{"304 with a length", "GET", "HTTP/1.1 304 Same\r\nContent-Length: 2\r\n\r\n", "304 Same none keep"},
		{"204", "GET", "HTTP/1.1 204 No\r\n\r\n", "204 No none keep"},
		{"204 with length 0", "GET", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", "204 No none keep"},
		{"205 with length 0", "GET", "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", "205 Reset length keep"},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK chunked keep"},
		{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\n", "200 OK until-close"},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "200 OK length"},
		{"HTTP/1.0 that stays", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"HTTP/1.0 until close", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 OK until-close"},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "200 OK length"},
		{"no reason", "GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200  length keep"},
		{"no space behind the code", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200  length keep"},
		{"reason in UTF-8", "GET", "HTTP/1.1 404 Gibt\t\xc3\xa9s nicht\r\nContent-Length: 0\r\n\r\n", "404 Gibt\t\xc3\xa9s nicht length keep"},
		{"unknown code", "GET", "HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n", "799 Odd length keep"},
		{"100", "POST", "HTTP/1.1 100 Continue\r\n\r\n", "100 Continue none keep interim"},
		{"103", "GET", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "103 Early Hints none keep interim"},
		// A message without a body ends with its headers, whatever they say. No bytes may follow.
		{"204 in chunks", "GET", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "204 No none"},
		{"204 with a length", "GET", "HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\nabc", "204 No none"},
		{"204 with a bad length", "GET", "HTTP/1.1 204 No\r\nContent-Length: x\r\n\r\n", "204 No none"},
		{"204 with all", "GET", "HTTP/1.1 204 No\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\nContent-Length: 4\r\n\r\n", "204 No none"},
		{"103 with a length", "GET", "HTTP/1.1 103 Early\r\nContent-Length: 3\r\n\r\n", "103 Early none interim"},
		{"100 in chunks", "GET", "HTTP/1.1 100 Go\r\nTransfer-Encoding: chunked\r\n\r\n", "100 Go none interim"},
		{"101 in chunks", "GET", "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n", "101 Switch none switches"},
		{"bad length of HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "200 OK none"},
		{"bad coding of HEAD", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "200 OK none"},
		{"304 with both", "GET", "HTTP/1.1 304 Same\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "304 Same none"},
		{"equal lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "200 OK length keep"},
		{"list of equal lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", "200 OK length keep"},
		{"folded", "GET", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"space before a colon", "GET", "HTTP/1.1 200 OK\r\nA \t: b\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"bad names", "GET", "HTTP/1.1 200 OK\r\nX(y): z\r\n\xc3\xa9: a:b\r\n\"a\":\r\nA/B:\tc\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"folded behind a bad name", "GET", "HTTP/1.1 200 OK\r\nX(y): z\r\n Content-Length: 5\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"control bytes", "GET", "HTTP/1.1 200 O\aK\r\nA : \x1bb\x7f\r\nContent-Length: 0\r\n\r\n", "200 O K length keep"},
		{"Host twice", "GET", "HTTP/1.1 200 OK\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n", "200 OK length keep"},
		{"bad option in Connection", "GET", "HTTP/1.1 200 OK\r\nConnection: keep-alive; timeout=5\r\nContent-Length: 0\r\n\r\n", "200 OK length"},
		{"101", "GET", "HTTP/1.1 101 Switch\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "101 Switch none switches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []*h1.Conn{over(tt.bytes), trickle(tt.bytes)} {
				var r h1.Response
				if err := c.ReadResponse(&r, []byte(tt.method)); err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				got.WriteString(strconv.Itoa(r.Status()) + " " + string(r.Reason()) + " " + r.Body.Kind().String())
				for _, f := range []struct {
					on   bool
					name string
				}{{r.KeepAlive(), " keep"}, {r.IsInterim(), " interim"}, {r.IsSwitchingProtocols(), " switches"}} {
					if f.on {
						got.WriteString(f.name)
					}
				}
				if got.String() != tt.want {
					t.Errorf("got %q, want %q", got.String(), tt.want)
				}
				if r.Repairs() == "" { // otherwise fasthttp may reject it
					answerAsFasthttp(t, &r)
				}
			}
		})
	}
}

func TestDroppedFieldWithABadNameIsARepair(t *testing.T) {
	var r h1.Response
	err := over("HTTP/1.1 200 OK\r\nX(y): z\r\nContent-Length: 0\r\n\r\n").ReadResponse(&r, []byte("GET"))
	if err != nil || r.Repairs() != "a field with a bad name" {
		t.Errorf("Repaired() = %q, %v", r.Repairs(), err)
	}
}

// After an interim response that announces a body, bytes of that body could be parsed as a response.
// The connection ends with the final response.
func TestConnectionEndsAfterAnInterimResponseThatAnnouncedABody(t *testing.T) {
	c := over("HTTP/1.1 103 A\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	var r h1.Response
	for i, want := range []bool{false, false, true} {
		if err := c.ReadResponse(&r, []byte("GET")); err != nil || r.KeepAlive() != want {
			t.Errorf("response %d: KeepAlive() = %v, %v, want %v", i, r.KeepAlive(), err, want)
		}
	}
}

func TestInterimAnswersComeOneAtATime(t *testing.T) {
	c := over("HTTP/1.1 103 A\r\n\r\nHTTP/1.1 103 B\r\n\r\nHTTP/1.1 200 C\r\nContent-Length: 1\r\n\r\nx")
	var r h1.Response
	for _, want := range []string{"A", "B", "C"} {
		if err := c.ReadResponse(&r, []byte("GET")); err != nil || string(r.Reason()) != want {
			t.Fatalf("reason %q, %v, want %q", r.Reason(), err, want)
		}
	}
	if b, err := io.ReadAll(&r.Body); string(b) != "x" || err != nil {
		t.Errorf("body %q, %v", b, err)
	}
}

func TestEndOfAnswers(t *testing.T) {
	for bytes, want := range map[string]error{
		"":                          io.EOF,
		"H":                         io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\n":       io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\nA: b\r": io.ErrUnexpectedEOF,
	} {
		var r h1.Response
		if err := over(bytes).ReadResponse(&r, []byte("GET")); !errors.Is(err, want) {
			t.Errorf("ReadResponse of %q = %v, want %v", bytes, err, want)
		}
	}
}

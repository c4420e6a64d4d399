package proxy_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/internal/raceflag"
)

// rawCase is input of a client, and the expected result. In bytes, {k} stands for the Host and key
// header lines.
type rawCase struct {
	name, bytes string
	status      int    // of the response
	lives       bool   // the connection serves another request
	reaches     string // what the app receives; empty: nothing
	cut         bool   // the app may receive the beginning, never the end
	closes      bool   // the client closes its sending side after the bytes
}

// evil follows every rejected request. It must never be served as a request.
const evil = "GET /evil HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"

// refusedWith returns rejected header lines, to be placed between "POST / HTTP/1.1", Host and key, and
// the empty line.
func refusedWith() map[string]string {
	return map[string]string{
		"CL with TE":             "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
		"TE with CL":             "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
		"CL twice":               "Content-Length: 3\r\nContent-Length: 3\r\n",
		"CL twice, other":        "Content-Length: 3\r\nContent-Length: 4\r\n",
		"CL list":                "Content-Length: 3, 3\r\n",
		"CL plus":                "Content-Length: +3\r\n",
		"CL minus":               "Content-Length: -3\r\n",
		"CL hexadecimal":         "Content-Length: 0x3\r\n",
		"CL empty":               "Content-Length:\r\n",
		"CL with a space inside": "Content-Length: 1 0\r\n",
		"CL with underscore":     "Content-Length: 1_0\r\n",
		"CL overflow":            "Content-Length: 18446744073709551619\r\n",
		"CL quoted":              "Content-Length: \"3\"\r\n",
		"CL float":               "Content-Length: 3.0\r\n",
		"CL space before colon":  "Content-Length : 3\r\n",
		"CL vertical tab":        "Content-Length: \v3\r\n",
		"TE identity":            "Transfer-Encoding: identity\r\n",
		"TE gzip, chunked":       "Transfer-Encoding: gzip, chunked\r\n",
		"TE chunked, identity":   "Transfer-Encoding: chunked, identity\r\n",
		"TE chunked twice":       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"TE chunked, chunked":    "Transfer-Encoding: chunked, chunked\r\n",
		"TE xchunked":            "Transfer-Encoding: xchunked\r\n",
		"TE quoted":              "Transfer-Encoding: \"chunked\"\r\n",
		"TE parameter":           "Transfer-Encoding: chunked;a=b\r\n",
		"TE comma":               "Transfer-Encoding: ,chunked\r\n",
		"TE empty":               "Transfer-Encoding:\r\n",
		"TE vertical tab":        "Transfer-Encoding: \vchunked\r\n",
		"TE folded":              "Transfer-Encoding:\r\n chunked\r\n",
		"TE space before colon":  "Transfer-Encoding : chunked\r\n",
		"folded line":            "A: b\r\n c\r\n",
		"folded first line":      " A: b\r\n",
		"space before colon":     "A : b\r\n",
		"tab before colon":       "A\t: b\r\n",
		"space in name":          "A b: c\r\n",
		"no colon":               "Abc\r\n",
		"empty name":             ": b\r\n",
		"paren in name":          "A(: b\r\n",
		"UTF-8 in name":          "Ä: b\r\n",
		"NUL in value":           "A: b\x00c\r\n",
		"NUL in name":            "A\x00: b\r\n",
		"CR in value":            "A: b\rc\r\n",
		"CR CR LF":               "A: b\r\r\n",
		"LF in value":            "A: b\nContent-Length: 3\r\n",
		"bare LF":                "A: b\n",
		"BEL in value":           "A: b\ac\r\n",
		"DEL in value":           "A: b\x7fc\r\n",
		"second Host":            "Host: h\r\n",
		"other second Host":      "Host: evil\r\n",
		"Connection not a list":  "Connection: a b\r\n",
		"CL with _":              "Content_Length: 3\r\n",
		"CL with .":              "Content.Length: 3\r\n",
		"TE with _":              "Content-Length: 5\r\nTransfer_Encoding: chunked\r\n",
	}
}

// refusedHeads returns complete header sections that are rejected, with the status of the response.
func refusedHeads() map[string]struct {
	bytes  string
	status int
} {
	type bad = struct {
		bytes  string
		status int
	}
	return map[string]bad{
		"TE in HTTP/1.0":         {"POST / HTTP/1.0\r\n{k}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"two spaces":             {"GET  / HTTP/1.1\r\n{k}\r\n", 400},
		"space behind target":    {"GET /  HTTP/1.1\r\n{k}\r\n", 400},
		"space at the end":       {"GET / HTTP/1.1 \r\n{k}\r\n", 400},
		"tab for a space":        {"GET\t/ HTTP/1.1\r\n{k}\r\n", 400},
		"space before method":    {" GET / HTTP/1.1\r\n{k}\r\n", 400},
		"bare LF request line":   {"GET / HTTP/1.1\n{k}\r\n", 400},
		"bare LF before":         {"\nGET / HTTP/1.1\r\n{k}\r\n", 400},
		"two empty lines before": {"\r\n\r\nGET / HTTP/1.1\r\n{k}\r\n", 400},
		"CR before":              {"\rGET / HTTP/1.1\r\n{k}\r\n", 400},
		"bare LF at the end":     {"GET / HTTP/1.1\r\n{k}\n", 400},
		"method with brackets":   {"G(T / HTTP/1.1\r\n{k}\r\n", 400},
		"no method":              {"/ HTTP/1.1\r\n{k}\r\n", 400},
		"target with NUL":        {"GET /\x00 HTTP/1.1\r\n{k}\r\n", 400},
		"target with UTF-8":      {"GET /ä HTTP/1.1\r\n{k}\r\n", 400},
		"target with fragment":   {"GET /#a HTTP/1.1\r\n{k}\r\n", 400},
		"target without slash":   {"GET a HTTP/1.1\r\n{k}\r\n", 400},
		"target with bad escape": {"GET /%zz HTTP/1.1\r\n{k}\r\n", 400},
		"asterisk for GET":       {"GET * HTTP/1.1\r\n{k}\r\n", 400},
		"other absolute":         {"GET http://evil/ HTTP/1.1\r\n{k}\r\n", 400},
		"absolute with user":     {"GET http://u@h/ HTTP/1.1\r\n{k}\r\n", 400},
		"absolute ftp":           {"GET ftp://h/ HTTP/1.1\r\n{k}\r\n", 400},
		"HTTP/0.9":               {"GET /\r\n\r\n", 400},
		"HTTP/1.2":               {"GET / HTTP/1.2\r\n{k}\r\n", 505},
		"HTTP/2.0":               {"GET / HTTP/2.0\r\n{k}\r\n", 505},
		"HTTP/1.10":              {"GET / HTTP/1.10\r\n{k}\r\n", 400},
		"http/1.1":               {"GET / http/1.1\r\n{k}\r\n", 400},
		"h2c preface":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		"CONNECT":                {"CONNECT h:80 HTTP/1.1\r\n{k}\r\n", 405},
		"TLS":                    {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
		"no Host":                {"GET / HTTP/1.1\r\nX-Shard-Key: k\r\n\r\n", 400},
		"empty Host":             {"GET / HTTP/1.1\r\nHost:\r\nX-Shard-Key: k\r\n\r\n", 400},
		"Host with comma":        {"GET / HTTP/1.1\r\nHost: h,evil\r\nX-Shard-Key: k\r\n\r\n", 400},
		"Host with space":        {"GET / HTTP/1.1\r\nHost: h evil\r\nX-Shard-Key: k\r\n\r\n", 400},
		"Host with slash":        {"GET / HTTP/1.1\r\nHost: h/evil\r\nX-Shard-Key: k\r\n\r\n", 400},
		"Host with user":         {"GET / HTTP/1.1\r\nHost: u@h\r\nX-Shard-Key: k\r\n\r\n", 400},
		"Host with bad port":     {"GET / HTTP/1.1\r\nHost: h:8x\r\nX-Shard-Key: k\r\n\r\n", 400},
		"other expectation":      {"POST / HTTP/1.1\r\n{k}Expect: magic\r\nContent-Length: 1\r\n\r\nx", 417},
	}
}

// badChunks returns bodies that are rejected although their header section was valid.
func badChunks() map[string]string {
	return map[string]string{
		"size not hexadecimal": "g\r\nabc\r\n0\r\n\r\n",
		"size empty":           "\r\nabc\r\n0\r\n\r\n",
		"size signed":          "+3\r\nabc\r\n0\r\n\r\n",
		"size 0x":              "0x3\r\nabc\r\n0\r\n\r\n",
		"size overflow":        "10000000000000003\r\nabc\r\n0\r\n\r\n",
		"size with underscore": "1_0\r\nabc\r\n0\r\n\r\n",
		"size behind a space":  " 3\r\nabc\r\n0\r\n\r\n",
		"size before a space":  "3 \r\nabc\r\n0\r\n\r\n",
		"size ends in LF":      "3\nabc\r\n0\r\n\r\n",
		"extension with LF":    "3;a\nb\r\nabc\r\n0\r\n\r\n",
		"extension with CR":    "3;a\rb\r\nabc\r\n0\r\n\r\n",
		"extension unnamed":    "3;=b\r\nabc\r\n0\r\n\r\n",
		"extension open quote": "3;a=\"b\r\nabc\r\n0\r\n\r\n",
		"extension with NUL":   "3;a=\"\x00\"\r\nabc\r\n0\r\n\r\n",
		"data too long":        "3\r\nabcd\r\n0\r\n\r\n",
		"data without CRLF":    "3\r\nabc0\r\n\r\n",
		"data ends in LF":      "3\r\nabc\n0\r\n\r\n",
		"data ends in CR":      "3\r\nabc\r0\r\n\r\n",
		"trailer folded":       "3\r\nabc\r\n0\r\nA: b\r\n c\r\n\r\n",
		"trailer no colon":     "3\r\nabc\r\n0\r\nAbc\r\n\r\n",
		"trailer bare LF":      "3\r\nabc\r\n0\r\nA: b\n\r\n",
	}
}

// droppedTrailers returns chunked bodies with a field that is not allowed in a trailer. The app gets
// the body without the field. RFC 9110 section 6.5.1 permits a recipient to drop it.
func droppedTrailers() map[string]string {
	return map[string]string{
		"trailer CL":            "3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
		"trailer TE":            "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"trailer Host":          "3\r\nabc\r\n0\r\nHost: evil\r\n\r\n",
		"trailer Shardway":      "3\r\nabc\r\n0\r\nShardway-Epoch: 9\r\n\r\n",
		"trailer X-Forwarded":   "3\r\nabc\r\n0\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n",
		"trailer Shardway_":     "3\r\nabc\r\n0\r\nShardway_Epoch: 9\r\n\r\n",
		"trailer Shardway.":     "3\r\nabc\r\n0\r\nShardway.Epoch: 9\r\n\r\n",
		"trailer X_Forwarded":   "3\r\nabc\r\n0\r\nX_Forwarded_For: 1.1.1.1\r\n\r\n",
		"trailer X-Forwarded-*": "3\r\nabc\r\n0\r\nX-Forwarded-Prefix: /a\r\n\r\n",
		"trailer X_Real_IP":     "3\r\nabc\r\n0\r\nX_Real_IP: 1.1.1.1\r\n\r\n",
		"trailer CL with _":     "3\r\nabc\r\n0\r\nContent_Length: 1\r\n\r\n",
		"trailer Authorization": "3\r\nabc\r\n0\r\nAuthorization: a\r\n\r\n",
	}
}

// droppedAnnouncements returns Trailer lines that announce such a field. The lines are dropped as
// well.
func droppedAnnouncements() map[string]string {
	return map[string]string{
		"trailer announces CL":   "Trailer: Content-Length\r\n",
		"trailer announces Host": "Trailer: X-A, Host\r\n",
		"trailer announces _":    "Trailer: X_Forwarded_For\r\n",
	}
}

// accepted returns valid but unusual requests, and what the app receives.
func accepted() []rawCase {
	return []rawCase{
		{name: "plain", bytes: "GET /a HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "empty query", bytes: "GET /a? HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET /a? "},
		{name: "odd path", bytes: "GET //a/../b/%2e%2F;x=1?%zz&&= HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET //a/../b/%2e%2F;x=1?%zz&&= "},
		{name: "empty line before", bytes: "\r\nGET /a HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "absolute", bytes: "GET http://h/a?b HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET /a?b "},
		{name: "absolute without path", bytes: "GET http://H HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "GET / "},
		{name: "OPTIONS *", bytes: "OPTIONS * HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "OPTIONS * "},
		{name: "own method", bytes: "BREW /pot HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "BREW /pot "},
		{name: "HEAD", bytes: "HEAD /a HTTP/1.1\r\n{k}\r\n", status: 200, lives: true, reaches: "HEAD /a "},
		{name: "GET with a body", bytes: "GET /a HTTP/1.1\r\n{k}Content-Length: 3\r\n\r\nabc", status: 200, lives: true, reaches: "GET /a abc"},
		{name: "CL with zeros", bytes: "POST /a HTTP/1.1\r\n{k}Content-Length: 0003\r\n\r\nabc", status: 200, lives: true, reaches: "POST /a abc"},
		{name: "CL zero", bytes: "POST /a HTTP/1.1\r\n{k}Content-Length: 0\r\n\r\n", status: 200, lives: true, reaches: "POST /a "},
		{name: "body that looks like a request", bytes: "POST /a HTTP/1.1\r\n{k}Content-Length: 22\r\n\r\nGET /evil HTTP/1.1\r\n\r\n", status: 200, lives: true, reaches: "POST /a GET /evil HTTP/1.1\r\n\r\n"},
		{name: "chunks", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n", status: 200, lives: true, reaches: "POST /a abc0123456789"},
		{name: "CHUNKED", bytes: "POST /a HTTP/1.1\r\n{k}tRANSFER-eNCODING: \t CHUNKED \r\n\r\n0\r\n\r\n", status: 200, lives: true, reaches: "POST /a "},
		{name: "extensions", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n3;a;b=c;d=\"e\\\"\"\r\nabc\r\n0;z\r\n\r\n", status: 200, lives: true, reaches: "POST /a abc"},
		{name: "trailers", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", status: 200, lives: true, reaches: "POST /a abc"},
		{name: "hop by hop", bytes: "GET /a HTTP/1.1\r\n{k}Connection: X-Named, keep-alive\r\nX-Named: 1\r\nKeep-Alive: 3\r\nProxy-Connection: close\r\nTE: gzip\r\nProxy-Authorization: x\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "Connection names Host", bytes: "GET /a HTTP/1.1\r\n{k}Connection: Host, Content-Length, Shardway-Key\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "h2c", bytes: "GET /a HTTP/1.1\r\n{k}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "upgrade without Connection", bytes: "GET /a HTTP/1.1\r\n{k}Upgrade: thing\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "forged headers", bytes: "GET /a HTTP/1.1\r\n{k}Shardway-Key: evil\r\nShardway-Shard: 1\r\nShardway-Epoch: 9\r\nshardway-map: 1 1\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Host: e\r\nX-Forwarded-Proto: e\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "forged headers, with _", bytes: "GET /a HTTP/1.1\r\n{k}Shardway_Key: evil\r\nshardway_shard: 1\r\nShardway_Epoch: 999999999\r\nShardway-Any_Thing: 1\r\nX_Forwarded_For: 1.1.1.1\r\nX-Forwarded_Host: e\r\nX_FORWARDED-PROTO: e\r\nX_Request_Id: e\r\nKeep_Alive: 3\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "forged headers, with . + |", bytes: "GET /a HTTP/1.1\r\n{k}Shardway.Key: evil\r\nshardway+shard: 1\r\nShardway|Epoch: 999999999\r\nShardway-Any~Thing: 1\r\nX.Forwarded!For: 1.1.1.1\r\nX-Forwarded.Host: e\r\nX.Request.Id: e\r\nKeep.Alive: 3\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "forged X-Forwarded, any", bytes: "GET /a HTTP/1.1\r\n{k}X-Forwarded-Prefix: /e\r\nX-Forwarded-Client-Cert: e\r\nx-forwarded-port: 1\r\nX_Forwarded_Ssl: on\r\nX-Forwarded-" + strings.Repeat("long-", 20) + ": 1\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "Connection names what is forged", bytes: "GET /a HTTP/1.1\r\n{k}Connection: Shardway_Epoch, X-Forwarded-Port\r\nShardway_Epoch: 1\r\nShardway-Epoch: 1\r\nX_Forwarded_Port: 1\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "no space behind colon", bytes: "GET /a HTTP/1.1\r\n{k}A:b\r\nC:\r\nD: \r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "bytes above ASCII in a value", bytes: "GET /a HTTP/1.1\r\n{k}A: \xe4\xff\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "Connection: close", bytes: "GET /a HTTP/1.1\r\n{k}Connection: close\r\n\r\n", status: 200, reaches: "GET /a "},
		{name: "HTTP/1.0", bytes: "GET /a HTTP/1.0\r\n{k}\r\n", status: 200, reaches: "GET /a "},
		{name: "HTTP/1.0 without Host", bytes: "GET /a HTTP/1.0\r\nX-Shard-Key: k\r\n\r\n", status: 200, reaches: "GET /a "},
		{name: "HTTP/1.0 kept", bytes: "GET /a HTTP/1.0\r\n{k}Connection: keep-alive\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "HTTP/1.0 with a body", bytes: "POST /a HTTP/1.0\r\n{k}Content-Length: 3\r\n\r\nabc", status: 200, reaches: "POST /a abc"},
		{name: "IPv6 Host", bytes: "GET /a HTTP/1.1\r\nHost: [::1]:80\r\nX-Shard-Key: k\r\n\r\n", status: 200, lives: true, reaches: "GET /a "},
		{name: "no key", bytes: "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", status: 400, lives: true},
		{name: "FIN in the head", bytes: "GET /a HTTP/1.1\r\nHost: h\r\nX-Sh", closes: true},
		{name: "FIN in a sized body", bytes: "POST /a HTTP/1.1\r\n{k}Content-Length: 30\r\n\r\nabc", closes: true, cut: true},
		{name: "FIN in a chunk", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n5\r\nabc", closes: true, cut: true},
		{name: "FIN between chunks", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", closes: true, cut: true},
		{name: "FIN before the last CRLF", bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", closes: true, cut: true},
	}
}

// rawCases returns all cases of the lists.
func rawCases() []rawCase {
	all := accepted()
	for name, chunks := range droppedTrailers() {
		all = append(all, rawCase{
			name: name, bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n" + chunks,
			status: 200, lives: true, reaches: "POST /a abc",
		})
	}
	for name, line := range droppedAnnouncements() {
		all = append(all, rawCase{
			name: name, bytes: "POST /a HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n" + line + "\r\n3\r\nabc\r\n0\r\n\r\n",
			status: 200, lives: true, reaches: "POST /a abc",
		})
	}
	for name, lines := range refusedWith() {
		all = append(all, rawCase{name: name, bytes: "POST / HTTP/1.1\r\n{k}" + lines + "\r\n0\r\n\r\n" + evil, status: 400})
	}
	for name, head := range refusedHeads() {
		all = append(all, rawCase{name: name, bytes: head.bytes + evil, status: head.status})
	}
	for name, chunks := range badChunks() {
		all = append(all, rawCase{name: name, bytes: "POST /chunks HTTP/1.1\r\n{k}Transfer-Encoding: chunked\r\n\r\n" + chunks + evil, status: 400, cut: true})
	}
	return all
}

// TestRawRequests checks for each case what reaches the app, what the client receives, and whether its
// connection stays open. It does so for every route of a request and for different splits of the bytes
// into packets.
func TestRawRequests(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			app := newChecker(t)
			front, owner := start(t, app.addr)
			for _, tc := range rawCases() {
				for _, pieces := range []int{1, 2}[raceflag.Share(0, 1):] {
					t.Run(tc.name, func(t *testing.T) {
						tc.run(t, app, front, pieces)
						until(t, "released", func() bool { return owner.running.Load() == 0 })
					})
				}
			}
		})
	}
}

func (tc rawCase) run(t *testing.T, app *checker, front *node, pieces int) {
	t.Helper()
	c := front.dial()
	c.t = t
	bytes := strings.ReplaceAll(tc.bytes, "{k}", "Host: h\r\nX-Shard-Key: k\r\n")
	method, _, _ := strings.Cut(strings.TrimSpace(bytes), " ")
	if pieces == 2 {
		c.send("%s", bytes[:len(bytes)/2])
		time.Sleep(time.Millisecond) // so that the bytes are sent in two segments
		bytes = bytes[len(bytes)/2:]
	}
	_, _ = io.WriteString(c, bytes) // the node may reject the request after a part of it
	if tc.closes {
		halfClose(t, c.Conn)
	}
	if tc.status != 0 {
		res, body := c.answer(method)
		if res.StatusCode != tc.status {
			t.Errorf("status %d %s, want %d", res.StatusCode, body, tc.status)
		}
		if tc.status != 200 && res.Header.Get("Shardway-Error") == "" {
			t.Errorf("%d without Shardway-Error: %s", res.StatusCode, body)
		}
		if tc.reaches != "" && method != "HEAD" && body != tc.reaches {
			t.Errorf("answer %q, want %q", body, tc.reaches)
		}
		if tc.lives == res.Close {
			t.Errorf("Connection: close is %v, and the connection lives: %v", res.Close, tc.lives)
		}
	}
	ordinary(t, app, front, c, tc.lives)
	var want []string
	if tc.reaches != "" {
		want = []string{tc.reaches}
	}
	seen, cut := app.take()
	seen = slices.DeleteFunc(seen, func(s string) bool { return strings.Contains(s, " /ordinary/") })
	if !slices.Equal(seen, want) {
		t.Errorf("the app saw %q, want %q", seen, want)
	}
	if cut > 0 && !tc.cut {
		t.Errorf("%d requests reached the app cut", cut)
	}
}

// ordinary sends two requests and expects the correct response to each. It uses the connection of the
// case if that stays open, and new connections otherwise.
func ordinary(t *testing.T, app *checker, front *node, c *client, lives bool) {
	t.Helper()
	for i := range 2 {
		app.mu.Lock()
		app.asked++
		path := fmt.Sprintf("/ordinary/%d", app.asked)
		app.mu.Unlock()
		if !lives {
			if i == 0 {
				c.closed()
			}
			c = front.dial()
			c.t = t
		}
		if res, body := c.get(path); res.StatusCode != 200 || body != "GET "+path+" " {
			t.Errorf("an ordinary request afterwards: %v %q, want its own answer", res.Status, body)
		}
	}
	_ = c.Close()
}

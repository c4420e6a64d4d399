//go:build linux

package dashboard_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"shardway/admin/auth"
	"shardway/e2e/dashboard"
	"shardway/e2e/kit/browser"
)

var pictures = flag.String("pictures", "", "directory that the README's pictures go to; empty: they are made and thrown away")

// TestScreenshotsAreTaken takes the screenshots of the README from invented clusters, so
// that they change only with the page.
func TestScreenshotsAreTaken(t *testing.T) {
	b := browser.StartOrSkip(t)
	dir := *pictures
	if dir == "" {
		dir = t.TempDir()
	}
	failed := dashboard.NewScene(3, 1024)
	failed.Fail(2)
	hundred := dashboard.NewScene(100, 16384)
	hundred.Fail(40)
	hundred.Commit("crashed")
	for i, shot := range []struct {
		name string
		s    *dashboard.Scene
		v    browser.View
	}{
		{"status", dashboard.NewScene(3, 1024), desk},
		{"status-outage", failed, desk},
		{"status-dark", dashboard.NewScene(3, 1024), night},
		{"status-hundred", hundred, desk},
		{"status-phone", dashboard.NewScene(3, 1024), phone},
	} {
		if *pictures == "" && i > 0 {
			break // one is enough to test this
		}
		shot.v.ReducedMotion = true
		url, _ := serve(t, shot.s, auth.Access{})
		page := b.Open(t, url+"/status", shot.v)
		page.Await(t, "the script shows the cluster", shown+` && !document.getElementById("changes").hidden && [...document.querySelectorAll("#rows tr:not([data-trouble='2']) td[data-col=running]")].every(c => c.textContent !== "–")`)
		small := reduceColours(t, page.Screenshot(t, true))
		if maximum := 150 << 10; len(small) > maximum {
			t.Errorf("%s has %d bytes, want at most %d", shot.name, len(small), maximum)
		}
		if err := os.WriteFile(filepath.Join(dir, shot.name+".png"), small, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Errors() {
			t.Errorf("%s: the browser complains: %s", shot.name, c)
		}
		page.Close(t)
	}
}

// reduceColours encodes a picture with its 256 most frequent colours, and the nearest of them for
// the others. A page has few colours, and the difference at the edges of letters is not
// visible.
func reduceColours(t *testing.T, raw []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[color.NRGBA]int{}
	box := full.Bounds()
	plain := image.NewNRGBA(box)
	draw.Draw(plain, box, full, box.Min, draw.Src)
	at := plain.NRGBAAt
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var all []color.NRGBA
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.NRGBA) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return bytes.Compare([]byte{a.R, a.G, a.B}, []byte{b.R, b.G, b.B})
	})
	var palette color.Palette
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.NRGBA]uint8{}
	small := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			small.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

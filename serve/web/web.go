// Package web is the operator's page: files that a browser runs, all of them in the
// program, which read package rest's API. It has no data of its own.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the page load its own files and ask its own server, and nothing else.
const policy = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// types by extension; the system's own list may lack some.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}

// file is one of the page's, ready to be sent.
type file struct {
	kind, tag     string
	plain, packed []byte
}

// Handler serves the page at / with everything it needs beside it, and the API below
// /api/. All addresses in the page are relative: it may stand below any path that ends
// with a slash.
func Handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/api/", "/sensors/", "/rules/", "/actuators/"} {
		mux.Handle(path, api)
	}
	mux.Handle("/", page())
	return mux
}

func page() http.Handler {
	files, err := load()
	if err != nil {
		panic(fmt.Sprintf("the page's own files: %v", err)) // they are in the program
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // asked for again, by its tag
		f, ok := files[name]
		switch {
		case !ok:
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Content-Type", f.kind)
		h.Set("ETag", f.tag)
		h.Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		body := f.plain
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = f.packed
		}
		_, _ = w.Write(body) // who asked may be gone
	})
}

// Size of the page as it is sent, compressed, bytes.
func Size() (int, error) {
	files, err := load()
	sum := 0
	for name, f := range files {
		if path.Ext(name) != ".LICENSE" {
			sum += len(f.packed)
		}
	}
	return sum, err
}

func load() (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(plain); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		files[path.Base(name)] = file{kind: types[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: plain, packed: packed.Bytes()}
		return nil
	})
	return files, err
}

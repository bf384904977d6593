package main

import _ "embed"

// pageText is docs/benchmarks/node.md but for its figures.
//
//go:embed page.md.tmpl
var pageText string

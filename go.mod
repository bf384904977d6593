module github.com/mash2-io/mash2

go 1.26.0

require github.com/draffensperger/golp v0.0.0-20250721104811-2d405f0b4e68 // indirect

//go:build lpsolve

package node

// lp_solve and what it needs in turn. golp's own flags point at a folder inside
// its module that does not exist; headers are found by the environment's CPATH.

// #cgo linux LDFLAGS: -llpsolve55 -lcolamd -lm -ldl
import "C"

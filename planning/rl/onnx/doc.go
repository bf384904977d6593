// Package onnx reads policies that were trained elsewhere from ONNX files, and writes
// ours so. It knows the few operators that policies of small dense networks are made of:
//
//	Gemm, MatMul, Add, Sub, Mul, Div   with constants
//	Relu, Tanh, LayerNormalization
//	Flatten, Reshape, Identity, Dropout, Cast   which change nothing here
//	Clip, Softmax, ArgMax              behind all layers
//
// Operators have to follow one another: a graph that branches between its input and the
// output that is asked for is refused, and so is everything else that is not in this
// list, by its name. An error says so before anything is computed.
package onnx

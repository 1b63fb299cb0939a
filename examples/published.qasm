OPENQASM 3.0;
include "stdgates.inc";

// Network of TensorFlow Quantum's multi-worker tutorial on 23 qubits: hybrid without the closing pair (22, 0) of its
// convolution. The tutorial's code omits the pair if the number of qubits is odd. Circuit parameters as in hybrid.
input float[64] s0;
input float[64] s1;
input float[64] s2;
input float[64] s3;
input float[64] s4;
input float[64] s5;
input float[64] s6;
input float[64] s7;
input float[64] s8;
input float[64] s9;
input float[64] s10;
input float[64] s11;
input float[64] s12;
input float[64] s13;
input float[64] s14;
input float[64] s15;
input float[64] s16;
input float[64] s17;
input float[64] s18;
input float[64] s19;
input float[64] s20;

gate basis(about_x, about_y, about_z) a {
    rx(about_x) a;
    ry(about_y) a;
    rz(about_z) a;
}

gate zz(theta) a, b {
    cx a, b;
    rz(theta) b;
    cx a, b;
}

gate yy(theta) a, b {
    sx a;
    sx b;
    zz(theta) a, b;
    inv @ sx a;
    inv @ sx b;
}

gate xx(theta) a, b {
    h a;
    h b;
    zz(theta) a, b;
    h a;
    h b;
}

gate convolution(x0, y0, z0, x1, y1, z1, by_zz, by_yy, by_xx, x2, y2, z2, x3, y3, z3) a, b {
    basis(x0, y0, z0) a;
    basis(x1, y1, z1) b;
    zz(by_zz) a, b;
    yy(by_yy) a, b;
    xx(by_xx) a, b;
    basis(x2, y2, z2) a;
    basis(x3, y3, z3) b;
}

gate pooling(x0, y0, z0, x1, y1, z1) source, sink {
    basis(x0, y0, z0) sink;
    basis(x1, y1, z1) source;
    cx source, sink;
    inv @ basis(x0, y0, z0) sink;
}

qubit[23] q;
bit[12] c;
convolution(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14)
    q[0:2:20], q[1:2:21];
convolution(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14)
    q[1:2:21], q[2:2:22];
pooling(s15, s16, s17, s18, s19, s20) q[0:10], q[11:21];
c = measure q[11:22];

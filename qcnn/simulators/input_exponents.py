"""Exponents of gates that depend on inputs, for each sample, differentiable in the parameters and the inputs."""

import numpy as np
import tensorflow as tf

from qcnn.circuits.input_expressions import evaluate
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import as_input


class InputExponents:
    """Function that returns the exponents `CircuitIR.exponents_by_sample` of samples."""

    def __init__(self, network: CircuitIR) -> None:
        exponents = network.exponents_by_sample
        self._inputs = network.inputs
        terms = [(column, term) for column, exponent in enumerate(exponents) for term in exponent.terms]
        # Distinct functions of the inputs are evaluated once.
        self._expressions = list(dict.fromkeys(term.expression for _, term in terms))
        self._function_of_term = np.array([self._expressions.index(term.expression) for _, term in terms], np.int32)
        # Terms without a parameter have the factor 1, which follows the parameters.
        one = network.parameters
        self._factor_of_term = np.array(
            [one if term.parameter is None else term.parameter for _, term in terms], np.int32
        )
        self._weights = np.zeros((len(terms), len(exponents)))
        for row, (column, term) in enumerate(terms):
            self._weights[row, column] = term.coefficient
        self._constants = np.array([exponent.constant for exponent in exponents])
        self._slopes = np.zeros((len(exponents), network.parameters))
        for row, exponent in enumerate(exponents):
            for index, coefficient in exponent.coefficients:
                self._slopes[row, index] = coefficient

    def __call__(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        """Return the exponents, float64 (samples, exponents).

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            features: Inputs of the samples, float64 (samples, inputs).
        """
        values = dict(zip(self._inputs, tf.unstack(features, axis=1), strict=True))
        functions = [evaluate(each, values, lambda names: getattr(tf.math, names[1])) for each in self._expressions]
        factors = tf.concat([parameters, tf.ones([1], tf.float64)], axis=0)
        of_terms = tf.gather(tf.stack(functions, axis=1), as_input(self._function_of_term), axis=1)
        of_terms *= tf.gather(factors, as_input(self._factor_of_term))
        constants = as_input(self._constants) + tf.linalg.matvec(as_input(self._slopes), parameters)
        return constants + of_terms @ as_input(self._weights)
